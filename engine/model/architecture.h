// An architecture as a row of facts.
//
// To add an architecture, add a row in architecture.cpp (and in weights.cpp the tensors' names if they
// differ). The forward pass uses the facts, never the name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/experts.h"

namespace hearth {

enum class NormKind : uint8_t {
  kRms,    // x / rms(x) * w
  kLayer,  // (x - mean) / std * w + b
};

/// The input of a layer's norms.
enum class NormPlace : uint8_t {
  kBefore,  // the input of attention and the FFN
  kAfter,   // the output of attention and the FFN, before it is added to the residual stream
  kBoth,
  kSum,  // the residual stream after each addition: the normed sum is the new stream
};

/// Norms of q and k: the architecture's kind, without biases.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,     // each head's q and k, with one set of weights for all heads
  kEachHead,  // each head's q and k, with separate weights per head
  kWhole,     // q and k of all heads as one row
};

/// The criterion for parallel layers, in which attention and the FFN both read the layer's input and are
/// summed.
enum class ParallelFrom : uint8_t {
  kArchitecture,  // Architecture::parallel_attention
  kKey,           // the key use_parallel_residual, if the file has it
  kTensors,       // layers without a separate norm for the FFN
};

enum class EmbeddingScale : uint8_t { kNone, kRootOfWidth };

/// The effect of the key logit_scale on logits.
enum class LogitScale : uint8_t { kNone, kMultiplies, kDivides };

/// The input of the predictors in PowerInfer's files.
enum class PredictorInput : uint8_t {
  kResidual,    // the residual stream before the FFN, without its norm
  kLayerInput,  // the residual stream before the layer
};

/// Which layers see only a window of positions, if the file has the key attention.sliding_window. In every
/// group of `period` layers, layer `full` (from 0) sees everything.
struct WindowPattern {
  int period = 0;  // 0: all layers have the window
  int full = 0;
  bool full_turns =
      true;  // false: in models with windows, layers that see everything have no rotary embedding
  bool unscaled = false;  // only layers that see everything extend the context (RopeScaling)
  double rope_base = 0;   // of layers with a window, unless the file has the key; 0: same as other layers
};

/// Mixtures of experts.
struct MixtureFacts {
  bool possible = false;  // files may have experts; false: such files are refused
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = false;        // default if the file has no key expert_weights_norm
  bool group_by_best = false;      // see Router; used only if `score` is softmax
  bool reads_layer_input = false;  // the router reads the layer's input without a norm, before attention
  bool shared_has_gate = false;    // the shared expert is weighted by the sigmoid of its own gate
};

/// Facts shared by all models of an architecture.
struct Architecture {
  std::string_view name;  // general.architecture
  NormKind norm = NormKind::kRms;
  bool norm_bias = true;  // layer norms have biases
  NormPlace norms = NormPlace::kBefore;
  std::string_view ffn_norm = "ffn_norm";  // tensor name of the norm before the FFN
  RopeKind rope = RopeKind::kNone;
  FfnActivation activation{};      // default activation of the FFN, unless the file or the user specifies
                                   // another
  bool gated = true;               // FFN: act(gate) * up; false: act(up) without a gate
  bool qkv_bias = false;           // q, k and v have biases; false: used if the file has them
  QkNorm qk_norm = QkNorm::kNone;  // before RoPE
  bool qk_norm_optional = false;   // used if the file has it
  bool qk_norm_after_rope = false;
  int layers_per_unturned = 0;      // n: every n-th layer has no rotary embedding; 0: all layers have one
  bool parallel_attention = false;  // attention and FFN both read the layer's input and are summed
  ParallelFrom parallel_from = ParallelFrom::kArchitecture;
  bool latent = false;        // all heads' keys and values come from one latent, see LatentSpec
  bool sinks = false;         // each head's softmax has one more logit, attn_sinks
  bool queries_grow = false;  // queries grow with their position, if the file has the key
                              // attention.temperature_scale
  bool looks_ahead =
      false;  // attention: a token sees its whole text (an encoder), not only what is before it
  WindowPattern window = {};
  float attention_cap = 0;  // default of AttentionScores::soft_cap if the file has no key; 0: none
  float logit_cap = 0;      // logits l become cap * tanh(l / cap); default if the file has no key; 0: none
  /// In the model with this many layers, scores are divided by the root of d_model / n_heads instead of
  /// head_dim.
  int layers_scored_by_width = 0;
  EmbeddingScale embedding_scale = EmbeddingScale::kNone;
  LogitScale logit_scale = LogitScale::kNone;
  MixtureFacts mixture = {};
  bool yarn_rounds = true;  // YaRN's ramp starts and ends at whole dimensions
  /// Learned positions are added to the embeddings: position p uses row p + position_offset of their table.
  std::optional<int> position_offset = {};
  bool token_types = false;       // row 0 of token_types, for a single text, is added to the embeddings
  bool embedding_norm = false;    // the sum of a token's embeddings is normed
  bool has_output = true;         // a norm and a matrix compute logits; false: hidden states only
  float latent_norm_eps = 1e-6f;  // epsilon of the latents' norms, whatever the file says for other norms
  float default_norm_eps = 0;     // for files without the key; 0: the key is required
  /// The activation that PowerInfer uses for this architecture; nullopt: PowerInfer does not support it.
  std::optional<FfnActivation> powerinfer_activation = {};
  PredictorInput predictor_input = PredictorInput::kResidual;
};

/// All architectures that load.
std::span<const Architecture> architectures();

}  // namespace hearth
