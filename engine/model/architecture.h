// Describes architectures as rows of facts in one table.
//
// To add an architecture, add a row in architecture.cpp, and add its tensors' names in weights.cpp if they
// differ from the usual ones. The forward pass uses the facts, never the architecture's name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/experts.h"
#include "kernels/recurrent.h"

namespace hearth {

enum class NormKind : uint8_t {
  kRms,    // x / rms(x) * w
  kLayer,  // (x - mean) / std * w + b
};

/// The values to which a layer's norms are applied.
enum class NormPlace : uint8_t {
  kBefore,  // the input of attention and the FFN
  kAfter,   // the output of attention and the FFN, before it is added to the residual stream
  kBoth,
  kSum,  // the residual stream after an output was added to it; the norm of this sum is the new residual
         // stream
};

/// Norms of q and k. Their kind is Architecture::norm; they have no biases.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,     // each head's q and k, with one set of weights for all heads
  kEachHead,  // each head's q and k, with separate weights per head
  kWhole,     // q and k of all heads together, as one row
};

/// The source that decides whether a model's layers are parallel. In parallel layers, attention and the FFN
/// both read the layer's input, and their outputs are added.
enum class ParallelFrom : uint8_t {
  kArchitecture,  // Architecture::parallel_attention
  kKey,           // the key use_parallel_residual; parallel if the file lacks it
  kTensors,       // parallel if the layers have no separate norm for the FFN
};

/// The activation between the two matrices of a head that ranks pairs of texts (text_head.h).
enum class HeadActivation : uint8_t { kNone, kTanh, kGeluErf };

enum class EmbeddingScale : uint8_t { kNone, kRootOfWidth };

/// The effect of the key logit_scale on logits.
enum class LogitScale : uint8_t { kNone, kMultiplies, kDivides };

/// The input of the predictors in PowerInfer's files.
enum class PredictorInput : uint8_t {
  kResidual,    // the residual stream before the FFN, not normed
  kLayerInput,  // the residual stream before the layer
};

/// Defines which layers have an attention window, if the file has the key attention.sliding_window. In every
/// group of `period` layers, the layer with index `full` in the group has no window: its tokens see all
/// positions. In encoders, a window reaches half of its size to either side.
struct WindowPattern {
  int period = 0;  // 0: all layers have the window
  int full = 0;
  bool full_turns =
      true;  // if false, layers without a window have no rotary embedding (in models with windows)
  bool unscaled = false;      // RopeScaling applies only to layers without a window
  bool full_half = false;     // layers without a window rotate half as many dimensions as the file says
  double rope_base = 0;       // default RoPE base of layers with a window; 0: the base of the other layers
  bool sections = false;      // the window is a section, see AttentionScores::sectioned
  int n_positions = 0;        // default of the key attention.sliding_window; 0: no window
  bool before_token = false;  // the file's number of positions does not include the token's own
};

/// Mixtures of experts.
struct MixtureFacts {
  bool possible = false;  // false: files with experts are refused
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = false;        // default of the key expert_weights_norm
  bool group_by_best = false;      // see Router::group_by_best; used only with softmax scores
  bool reads_layer_input = false;  // the router reads the input of attention, before its norm
  /// Layers have experts beside their dense FFN. The experts and the router read the residual stream through
  /// norms of their own, and both results are normed before they are added.
  bool beside_dense = false;
  /// A token's weight of its only expert multiplies the expert's input, not its output.
  bool weighs_input = false;
  /// Experts may read and write vectors shorter than the model's, between two matrices of their layer.
  bool latent = false;
  bool where_routers_are = false;  // layers without a router are dense, whatever the keys say
  bool shared_has_gate = false;    // the shared expert is weighted by the sigmoid of its own gate
};

/// Facts shared by all models of an architecture.
struct Architecture {
  std::string_view name;  // general.architecture
  NormKind norm = NormKind::kRms;
  bool norm_bias = true;  // layer norms have biases
  NormPlace norms = NormPlace::kBefore;
  std::string_view ffn_norm = "ffn_norm";  // tensor name of the norm before the FFN
  bool first_norm_optional = false;        // the first layer may lack the norm before attention
  /// Tensor name of the norm of the last layer's output. Files may also have the usual name.
  std::string_view output_norm = "output_norm";
  RopeKind rope = RopeKind::kNone;
  FfnActivation activation{};      // the FFN's activation, unless the file or the user specifies another
  bool names_activation = false;   // the key hidden_activation may name another activation
  bool gated = true;               // true: the FFN computes act(gate) * up; false: act(up), without a gate
  bool qkv_bias = false;           // q, k and v must have biases; false: biases are used if the file has them
  QkNorm qk_norm = QkNorm::kNone;  // before RoPE
  bool qk_norm_optional = false;   // the norms of q and k are used if the file has them
  bool qk_norm_after_rope = false;
  /// The norms of q and k have no weights. Layers without a rotary embedding have no such norms.
  bool qk_norm_plain = false;
  int experts_without_qk_norm = 0;  // models with so many experts have no norms of q and k; 0: all have them
  bool value_norm = false;          // each head's values are normed, without weights
  bool value_from_key = false;  // layers without attn_v have as values their keys, before the keys' norm and
                                // rotary embedding
  bool unit_scores = false;     // scores are not scaled, unless the file says otherwise
  /// Layers with a window have heads of another size, and the file says for each layer whether it has a
  /// window. The last layers may read the keys and values of earlier layers.
  bool window_heads = false;
  bool assists = false;    // all layers read keys and values of another model, see AssistantWeights
  bool shares_kv = false;  // the last layers may read the keys and values of earlier layers
  /// The residual stream has several streams, see ResidualStreams. Beside attention, each layer has a product
  /// of two narrow matrices, see LaurelWeights.
  bool streams = false;
  bool cuts_gates = false;        // some layers' gates are cut, see LayerSpec::gate_cut
  bool layer_scale = false;       // after each layer, the residual stream may be multiplied by a number
  bool layer_embeddings = false;  // a token may have an embedding for each layer, see LayerEmbeddings
  bool rope_axes = false;       // images have positions along several axes, each for some of RoPE's pairs of
                                // dimensions; a text's token has its one position along all axes
  int layers_per_unturned = 0;  // n > 0: every n-th layer has no rotary embedding; 0: all layers have one
  bool parallel_attention = false;  // attention and the FFN both read the layer's input, and their outputs
                                    // are added
  ParallelFrom parallel_from = ParallelFrom::kArchitecture;
  bool latent = false;  // the keys and values of all heads come from one latent, see LatentSpec
  /// The rotary embedding of indexers, which choose the positions that attention reads if a token sees more
  /// of them than the key attention.indexer.top_k says (ModelSpec::indexer). kNone: the model has no
  /// indexers.
  RopeKind indexer_rope = RopeKind::kNone;
  bool indexers_shared = false;  // layers without an indexer use the choice of the one before
  bool sinks = false;  // the softmax of each head has an additional logit, from the tensor attn_sinks
  bool sinks_in_windows = false;  // layers with a window have it, and no others
  bool queries_grow = false;     // queries are scaled by a factor that grows with their position, if the file
                                 // has the key attention.temperature_scale
  float query_growth = 0;        // default of this key, see ModelSpec::query_growth
  int growth_span = 0;           // default of ModelSpec::growth_span; 0: RopeSpec::original_context
  int growth_from = 0;           // see AttentionScores
  bool grows_unturned = false;   // only queries of layers without a rotary embedding grow
  bool gated_attention = false;  // the rows of each head's query are followed by rows of a gate: attention's
                                 // output is multiplied by the gate's sigmoid
  /// The activation of a gate from the tensor attn_gate, by which attention's output is multiplied. The
  /// tensor has a row for each element of the output, or a row for each head. nullopt: no such tensor.
  std::optional<Activation> attention_gate = {};
  bool heads_of_layers = false;  // layers may have different numbers of heads
  bool short_values = false;     // a head's values may be fewer numbers than its keys, see ModelSpec::d_value
  bool value_scale = false;      // values may be multiplied by a number, from the key attention.value_scale
  /// The layers that predict later tokens are heads: each guesses one token further than the one before it,
  /// and reads the model's hidden states before the output norm (NextnWeights). false: the first such layer
  /// guesses all tokens, and reads hidden states after the output norm.
  bool nextn_heads = false;
  bool clamps_swiglu = false;  // some layers may have kSwigluClamped, see read_layer_activations.h
  /// The kind of the layers that are recurrent; nullopt: no layer is.
  std::optional<RecurrentKind> recurrent = {};
  bool tiled_values = false;  // default of RecurrentShape::tiled
  /// In gated delta nets, each row of a state has its own decay. Decays and gates are projected from vectors
  /// of head_dim numbers, and q, k and v have separate tensors.
  bool row_decays = false;
  Activation delta_gate = Activation::kSilu;  // of the gate of a gated delta net's result
  /// A layer is one block: a recurrence, attention, or an FFN. Its one norm is called attn_norm.
  bool one_block = false;
  /// Recurrent layers have attention too. Both read the layer's input, and their outputs are added.
  bool recurs_beside_attention = false;
  bool all_recur = false;  // no layer has attention; with one_block
  /// In Mamba-2, the result is normed before it is gated, if the file has the norm, and not after it.
  bool norms_before_gate = false;
  bool rope_by_key = false;  // there is no rotary embedding if the key rope.scaling.finetuned is false
  bool alibi = false;        // scores fall with the distance of positions, see AttentionScores::slopes
  bool looks_ahead = false;  // an encoder: in attention, a token also sees the tokens after it
  WindowPattern window = {};
  float attention_cap = 0;  // default of AttentionScores::soft_cap for files without the key; 0: no cap
  float logit_cap = 0;      // default of ModelSpec::logit_cap for files without the key; 0: no cap
  /// In some families, one model divides scores by the root of d_model / n_heads instead of the root of
  /// head_dim. This member is the number of layers of that model; 0: the family has no such model.
  int layers_scored_by_width = 0;
  EmbeddingScale embedding_scale = EmbeddingScale::kNone;
  LogitScale logit_scale = LogitScale::kNone;
  MixtureFacts mixture = {};
  bool yarn_rounds = true;  // YaRN's ramp starts and ends at whole dimensions
  /// For models that add learned positions to the embeddings: position p uses row p + position_offset of the
  /// position table. nullopt: the model has no such table.
  std::optional<int> position_offset = {};
  bool token_types = false;     // row 0 of the token_types table, the type of a single text, is added to
                                // the embeddings
  bool embedding_norm = false;  // the sum of a token's embeddings is normed before the first layer
  bool has_output_norm = true;  // the last layer's output is normed
  bool has_output = true;       // a matrix computes logits; false: the result is hidden states
  bool dense_head = false;      // two matrices may change a text's pooled hidden state (text_head.h)
  /// Files may have a head that ranks pairs of texts, with this activation. nullopt: they have no such head.
  std::optional<HeadActivation> rank_head = {};
  bool ranks_by_mean = false;  // default pooling before this head: the mean; false: the first token, or the
                               // last one if attention only looks back
  float latent_norm_eps = 1e-6f;  // epsilon of the latents' norms; the file's epsilon is for all other norms
  float default_norm_eps = 0;     // epsilon for files without the key; 0: the key is required
  /// The activation that PowerInfer uses for this architecture; nullopt: PowerInfer does not support it.
  std::optional<FfnActivation> powerinfer_activation = {};
  PredictorInput predictor_input = PredictorInput::kResidual;
};

/// Returns all architectures that Hearth can load.
std::span<const Architecture> architectures();
/// Returns the architecture of assistants, which draft for another model and do not run alone.
const Architecture& assistant_architecture();

}  // namespace hearth
