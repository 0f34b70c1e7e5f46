// What an architecture is, as a row of facts.
//
// Adding an architecture is a row in architecture.cpp (and the tensors' names if they differ, in weights.cpp). The forward
// pass asks the facts, never the name.
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

/// What the norms of a layer norm.
enum class NormPlace : uint8_t {
  kBefore,  // what attention and the FFN read
  kAfter,   // what they add to the residual stream
  kBoth,
  kSum,  // the residual stream after each of them was added: the norm of the sum is the new stream
};

/// Norms of q and k, of the architecture's kind, without biases.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,     // each head's q and k, all heads by the same weights
  kEachHead,  // each head's q and k, every head by its own weights
  kWhole,     // q and k of all heads as one row
};

/// What decides that attention and the FFN both read the layer's input and are summed.
enum class ParallelFrom : uint8_t {
  kArchitecture,  // Architecture::parallel_attention
  kKey,           // the key use_parallel_residual, if the file has it
  kTensors,       // layers without a norm for the FFN alone
};

enum class EmbeddingScale : uint8_t { kNone, kRootOfWidth };

/// What the key logit_scale does to logits.
enum class LogitScale : uint8_t { kNone, kMultiplies, kDivides };

/// What the predictors of PowerInfer's files read.
enum class PredictorInput : uint8_t {
  kResidual,    // the residual stream before the FFN, its norm not applied
  kLayerInput,  // the residual stream before the layer
};

/// Which layers see only a window of positions, if the file has the key attention.sliding_window. Of every `period` layers,
/// number `full` (from 0) sees everything.
struct WindowPattern {
  int period = 0;  // 0: all layers have the window
  int full = 0;
  bool full_turns =
      true;  // false: in models with windows, layers that see everything have no rotary embedding
  bool unscaled = false;  // contexts are extended (RopeScaling) in layers that see everything only
  double rope_base = 0;   // of layers with a window, unless the file has the key; 0: as all layers
};

/// Mixtures of experts.
struct MixtureFacts {
  bool possible = false;  // files may have experts; false: such files are refused
  RouterScore score = RouterScore::kSoftmax;
  bool renormalise = false;        // unless the file has the key expert_weights_norm
  bool group_by_best = false;      // see Router; where scores are softmax
  bool reads_layer_input = false;  // the router reads the layer's input, no norm applied, before attention
  bool shared_has_gate = false;    // the shared expert counts by the sigmoid of a gate of its own
};

/// Facts shared by all models of an architecture.
struct Architecture {
  std::string_view name;  // general.architecture
  NormKind norm = NormKind::kRms;
  bool norm_bias = true;  // layer norms have biases
  NormPlace norms = NormPlace::kBefore;
  std::string_view ffn_norm = "ffn_norm";  // the tensor of the norm that the FFN's input has
  RopeKind rope = RopeKind::kNone;
  FfnActivation activation{};      // of its FFN, unless the file or the user says another
  bool gated = true;               // FFN: act(gate) * up; false: act(up), and there is no gate
  bool qkv_bias = false;           // q, k and v have biases; false: taken if the file has them
  QkNorm qk_norm = QkNorm::kNone;  // before RoPE
  bool qk_norm_optional = false;   // taken if the file has it
  bool qk_norm_after_rope = false;
  int layers_per_unturned = 0;  // of every so many layers the last has no rotary embedding; 0: all have it
  bool parallel_attention = false;  // attention and FFN both read the layer's input and are summed
  ParallelFrom parallel_from = ParallelFrom::kArchitecture;
  bool latent = false;        // keys and values of all heads are one latent, see LatentSpec
  bool sinks = false;         // each head's softmax has one more logit, attn_sinks
  bool queries_grow = false;  // with their position, if the file has the key attention.temperature_scale
  bool looks_ahead =
      false;  // attention: a token sees its whole text (an encoder), not only what is before it
  WindowPattern window = {};
  float attention_cap = 0;  // AttentionScores::soft_cap, unless the file has the key; 0: none
  float logit_cap = 0;      // logits l become cap * tanh(l / cap), unless the file has the key; 0: none
  /// Scores of the model with this many layers are divided by the root of d_model / n_heads, not of head_dim.
  int layers_scored_by_width = 0;
  EmbeddingScale embedding_scale = EmbeddingScale::kNone;
  LogitScale logit_scale = LogitScale::kNone;
  MixtureFacts mixture = {};
  bool yarn_rounds = true;  // YaRN's ramp begins and ends at whole dimensions
  /// Learned positions are added to the embeddings: position p is row p + this of their table.
  std::optional<int> position_offset = {};
  bool token_types = false;       // row 0 of token_types, that of a text alone, is added to the embeddings
  bool embedding_norm = false;    // the sum of a token's embeddings is normed
  bool has_output = true;         // a norm and a matrix give logits; false: there are hidden states only
  float latent_norm_eps = 1e-6f;  // of the norms of latents, whatever the file says of the others
  float default_norm_eps = 0;     // of files without a key for it; 0: they must have it
  /// The activation that PowerInfer gives models of this architecture; nullopt: it has none of them.
  std::optional<FfnActivation> powerinfer_activation = {};
  PredictorInput predictor_input = PredictorInput::kResidual;
};

/// All architectures that load.
std::span<const Architecture> architectures();

}  // namespace hearth
