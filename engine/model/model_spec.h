// What an architecture is, as a row of facts, and what one model file says about itself.
//
// Adding an architecture is a row in model_spec.cpp (and the tensors' names if they differ). The forward pass
// asks the facts, never the name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/model/model_file.h"
#include "engine/model/pooling.h"
#include "kernels/backend.h"

namespace hearth {

enum class NormKind : uint8_t {
  kRms,    // x / rms(x) * w
  kLayer,  // (x - mean) / std * w + b
};

/// What the predictors of PowerInfer's files read.
enum class PredictorInput : uint8_t {
  kResidual,    // the residual stream before the FFN, its norm not applied
  kLayerInput,  // the residual stream before the layer
};

/// Facts shared by all models of an architecture.
struct Architecture {
  std::string_view name;  // general.architecture
  NormKind norm = NormKind::kRms;
  RopeKind rope = RopeKind::kNone;
  FfnActivation activation{};       // of its FFN, unless the file or the user says another
  bool gated = true;                // FFN: act(gate) * up; false: act(up), and there is no gate
  bool qkv_bias = false;            // q, k and v have biases; false: taken if the file has them
  bool qk_norm = false;             // per-head norms of q and k before RoPE
  bool parallel_attention = false;  // attention and FFN both read the layer's input and are summed
  /// Learned positions are added to the embeddings: position p is row p + this of their table.
  std::optional<int> position_offset = {};
  float default_norm_eps = 0;  // of files without a key for it; 0: they must have it
  /// The activation that PowerInfer gives models of this architecture; nullopt: it has none of them.
  std::optional<FfnActivation> powerinfer_activation = {};
  PredictorInput predictor_input = PredictorInput::kResidual;
};

/// All architectures that load.
std::span<const Architecture> architectures();

enum class RopeScaling : uint8_t { kNone, kLinear, kYarn };

/// Rotary embedding as the file gives it (Su et al. 2021; YaRN: Peng et al. 2023). Llama-3's scaling comes as
/// a tensor of divisors, rope_freqs.weight, not as keys.
struct RopeSpec {
  int n_rot = 0;  // rotated dimensions of a head
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                       // context extension
  int original_context = 0;                  // context before extension (yarn)
  double attn_factor = 1.0;                  // extra magnitude
  double beta_fast = 32.0, beta_slow = 1.0;  // yarn's ramp, in rotations over the original context
};

/// One model's shape.
struct ModelSpec {
  Architecture arch;
  std::string name;  // general.name, or empty
  int n_layers = 0;
  int d_model = 0;
  int d_ff = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int n_vocab = 0;
  int context_train = 0;   // tokens the model was trained on
  int sliding_window = 0;  // 0: none. Attention is computed in full, so contexts are limited to the window
  float norm_eps = 0;
  RopeSpec rope;
  FfnActivation activation;
  Pooling pooling = Pooling::kLast;  // of embeddings, if a request asks for one
  bool gated = true;
  bool powerinfer = false;     // the file is PowerInfer's
  bool predictors = false;     // layers may have predictors: PowerInfer's file, or one beside the model
  float sparse_threshold = 0;  // a predictor's logits from here on propose a neuron

  int q_dim() const { return n_heads * head_dim; }
  int kv_dim() const { return n_kv_heads * head_dim; }
};

/// Reads and checks the keys. ffn_activation: the user's choice, by a name that parse_ffn_activation knows,
/// or empty. Throws ModelFileError that names key, value and what was expected. For an unknown architecture
/// the message names it and lists the known ones; for an activation that contradicts the file it says how to
/// proceed. Throws std::invalid_argument (one sentence) if ffn_activation is no such name.
ModelSpec read_model_spec(const ModelFile& file, std::string_view ffn_activation = {});

}  // namespace hearth
