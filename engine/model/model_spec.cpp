// Reads one model's keys into a ModelSpec.
#include "engine/model/model_spec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/model/ffn_activation.h"
#include "engine/model/read_delta.h"
#include "engine/model/read_head.h"
#include "engine/model/read_indexer.h"
#include "engine/model/read_layer_activations.h"
#include "engine/model/read_layer_heads.h"
#include "engine/model/read_mamba.h"
#include "engine/model/read_window_heads.h"
#include "engine/model/spec_keys.h"
#include "engine/model/unknown_architecture.h"
#include "kernels/base/file_error.h"

namespace hearth {
namespace {

constexpr int kMaxExperts = 1 << 14;
constexpr int kMaxUsedExperts = 256;
constexpr int kMaxStreams = 16;
// The norm of a row of zeros divides by the root of epsilon, so epsilon must not be zero. Models have 1e-5 to
// 1e-12.
constexpr double kMinEps = 1e-20;

const Architecture& architecture_of(const ModelFile& file) {
  const std::string_view name = file.get_string("general.architecture");
  std::string known;
  for (const Architecture& arch : architectures()) {
    if (arch.name == name) return arch;
    known += (known.empty() ? "" : ", ") + std::string(arch.name);
  }
  const std::string_view why = why_not_run(name);
  file_error::fail(file_error::file_label(file.path().string()),
                   "key \"general.architecture\" is " + file_error::quoted(name) +
                       ", an architecture that Hearth does not " +
                       (why.empty() ? "know" : "run because " + std::string(why)) + "; Hearth runs " + known);
}

RopeSpec read_rope(const SpecKeys& keys, const Architecture& arch, int head_dim, int context_train) {
  RopeSpec rope;
  rope.n_rot = head_dim;
  rope.original_context = context_train;
  if (arch.rope == RopeKind::kNone) return rope;  // files may have keys without a meaning
  rope.n_rot = keys.integer_or("rope.dimension_count", head_dim, 2, head_dim);
  if (rope.n_rot % 2 != 0) keys.fail("rope.dimension_count", std::to_string(rope.n_rot), "an even number");
  rope.base = keys.number_or("rope.freq_base", 10000.0, 1.0, 1e12);
  // Files from before 2023-10 specify linear scaling with the key scale_linear. A factor without a type also
  // means linear scaling.
  rope.factor = keys.number_or("rope.scale_linear", 1.0, 1e-3, 1e6);
  rope.factor = keys.number_or("rope.scaling.factor", rope.factor, 1e-3, 1e6);
  const std::string type = keys.text_or("rope.scaling.type", "linear");
  if (type == "linear" || type == "longrope") {
    if (rope.factor != 1.0) rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
  } else if (type != "none") {
    keys.fail("rope.scaling.type", file_error::quoted(type), "none, linear, yarn or longrope");
  }
  rope.yarn_rounds = arch.yarn_rounds;
  rope.original_context =
      keys.integer_or("rope.scaling.original_context_length", context_train, 1, SpecKeys::kMaxContext);
  rope.attn_factor = keys.number_or("rope.scaling.attn_factor", 1.0, 1e-3, 1e3);
  // YaRN multiplies cos and sin by a temperature. In models with this key, cos and sin are also divided by an
  // equal temperature, so they are not scaled.
  rope.yarn_tempers = keys.number_or("rope.scaling.yarn_log_multiplier", 0.0, 0.0, 1e3) == 0.0;
  // The file may have a magnitude for cos and sin that replaces the temperature.
  constexpr const char* kMagnitude = "rope.scaling.yarn_attn_factor";
  if (rope.scaling == RopeScaling::kYarn && keys.has(kMagnitude)) {
    rope.attn_factor *= keys.number(kMagnitude, 1e-3, 1e3);
    rope.yarn_tempers = false;
  }
  rope.beta_fast = keys.number_or("rope.scaling.yarn_beta_fast", 32.0, 1e-3, 1e6);
  rope.beta_slow = keys.number_or("rope.scaling.yarn_beta_slow", 1.0, 1e-3, 1e6);
  return rope;
}

/// Reads the rotary embedding of layers with a window. It has a separate base, and no scaling.
RopeSpec read_local_rope(const SpecKeys& keys, const Architecture& arch, int n_heads, int full_head_dim,
                         const RopeSpec& rope) {
  RopeSpec local;
  constexpr const char* kKey = "rope.dimension_count_swa";
  const int head_dim = arch.window_heads ? read_window_head_dim(keys, n_heads) : full_head_dim;
  local.n_rot = keys.integer_or(kKey, arch.window_heads ? head_dim : rope.n_rot, 2, head_dim);
  if (local.n_rot % 2 != 0) keys.fail(kKey, std::to_string(local.n_rot), "an even number");
  const double base = arch.window.rope_base > 0 ? arch.window.rope_base : rope.base;
  local.base = keys.number_or("rope.freq_base_swa", base, 1.0, 1e12);
  return local;
}

/// Returns for each layer whether it has a window, as the file's key states. If the file lacks the key, the
/// architecture decides.
std::vector<bool> windowed_layers(const SpecKeys& keys, const Architecture& arch, int n_layers,
                                  int n_unused) {
  constexpr const char* kKey = "attention.sliding_window_pattern";
  std::vector<bool> windowed;
  if (const auto given = keys.of_layers(kKey, n_layers, n_unused)) {
    for (const int64_t one : *given) windowed.push_back(one != 0);
    return windowed;
  }
  const int period = keys.integer_or(kKey, arch.window.period, 0, SpecKeys::kMaxLayers);
  const bool full_first = arch.window.period > 0 && arch.window.full == 0;
  const int full = full_first ? 0 : period - 1;
  for (int i = 0; i < n_layers; ++i) windowed.push_back(period == 0 || i % period != full);
  return windowed;
}

bool has_router(const ModelFile& file, int layer) {
  return file.find_tensor("blk." + std::to_string(layer) + ".ffn_gate_inp.weight") != nullptr;
}

/// kinds: its vectors are empty if all layers have attention and an FFN.
std::vector<LayerSpec> read_layers(const SpecKeys& keys, const Architecture& arch, const ModelSpec& spec,
                                   const LayerKinds& kinds) {
  std::vector<LayerSpec> layers(static_cast<size_t>(spec.n_layers));
  const int window =
      keys.integer_or("attention.sliding_window", arch.window.n_positions, 0, SpecKeys::kMaxContext);
  const int n_dense = keys.integer_or("leading_dense_block_count", 0, 0, spec.n_layers);
  const int step = keys.integer_or("interleave_moe_layer_step", 1, 1, SpecKeys::kMaxLayers);
  const std::vector<bool> windowed = windowed_layers(keys, arch, spec.n_layers, spec.n_unused_layers);
  const bool turns =
      arch.rope != RopeKind::kNone && (!arch.rope_by_key || keys.truth_or("rope.scaling.finetuned", true));
  for (int i = 0; i < spec.n_layers; ++i) {
    LayerSpec& layer = layers[static_cast<size_t>(i)];
    const bool has_window = window > 0 && windowed[static_cast<size_t>(i)];
    if (has_window)
      layer.window = arch.looks_ahead ? window / 2 + 1 : window + (arch.window.before_token ? 1 : 0);
    layer.local_rope = has_window && arch.window.unscaled;
    // If full_turns is false, layers without a window have no rotary embedding. This does not apply to files
    // without windows (window == 0).
    const int unturned = arch.layers_per_unturned;
    layer.turns = turns && (arch.window.full_turns || window == 0 || has_window) &&
                  (unturned == 0 || i % unturned != unturned - 1);
    layer.experts = spec.has_experts() && i >= n_dense && (i + 1) % step == 0;
    if (arch.mixture.where_routers_are) layer.experts = layer.experts && has_router(keys.file(), i);
    const auto at = static_cast<size_t>(i);
    if (!kinds.has_ffn.empty()) layer.has_ffn = kinds.has_ffn[at];
    if (!kinds.mixes.empty()) layer.mixes = kinds.mixes[at];
    layer.experts = layer.experts && layer.has_ffn;
    layer.recurrent = !kinds.recurrent.empty() && kinds.recurrent[at];
    if (layer.mixes && (!layer.recurrent || arch.recurs_beside_attention)) continue;
    layer.window = 0;
    layer.turns = layer.local_rope = false;
  }
  return layers;
}

/// Returns whether the file has biases for choosing experts.
bool has_choice_bias(const ModelFile& file, int n_layers) {
  for (int i = 0; i < n_layers; ++i) {
    if (file.find_tensor("blk." + std::to_string(i) + ".exp_probs_b.bias") != nullptr) return true;
  }
  return false;
}

RouterScore read_router_score(const ModelFile& file, const SpecKeys& keys, const Architecture& arch,
                              int n_layers) {
  switch (keys.integer_or("expert_gating_func", 0, 0, 255)) {
    case 0:
      // Files of GLM-4.7-Flash lack the key. Models that have a latent and a bias for choosing experts use
      // sigmoids.
      return arch.latent && has_choice_bias(file, n_layers) ? RouterScore::kSigmoid : arch.mixture.score;
    case 1:
      return RouterScore::kSoftmax;
    case 2:
      return RouterScore::kSigmoid;
    case 3:
      return RouterScore::kSoftmaxOfChosen;
    default:
      keys.fail("expert_gating_func", std::to_string(keys.integer("expert_gating_func", 0, 255)),
                "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)");
  }
}

/// Returns the number of neurons per expert for files that have no key with this number, such as old files of
/// qwen2moe and qwen3moe. In these files, feed_forward_length is the width of dense layers. So this function
/// returns the width of the first tensor of experts, or d_ff if there is no such tensor.
int64_t expert_width(const ModelFile& file, int n_layers, int d_ff) {
  for (int i = 0; i < n_layers; ++i) {
    const std::string up = "blk." + std::to_string(i) + ".ffn_up";
    for (const std::string& name : {up + "_exps.weight", up + ".0.weight"}) {
      if (const TensorInfo* tensor = file.find_tensor(name)) return tensor->shape[1];
    }
  }
  return d_ff;
}

/// Returns the number of neurons of all layers' experts. n_blocks includes the layers that are not run.
int read_expert_width(const ModelFile& file, const SpecKeys& keys, const ModelSpec& spec, int n_blocks) {
  constexpr const char* kKey = "expert_feed_forward_length";
  if (keys.has(kKey)) return keys.shared_integer(kKey, spec.n_layers, n_blocks, 1, SpecKeys::kMaxWidth);
  const int64_t width = std::min(SpecKeys::kMaxWidth, expert_width(file, spec.n_layers, spec.d_ff));
  return width > 0 ? static_cast<int>(width) : keys.integer(kKey, 1, SpecKeys::kMaxWidth);
}

/// Returns the width of a gated shared expert for files without the key, from its first tensor; `fallback` if
/// there is no such tensor.
int64_t shared_width(const ModelFile& file, const ModelSpec& spec, int64_t fallback) {
  for (int i = 0; spec.arch.mixture.shared_has_gate && i < spec.n_layers; ++i) {
    const std::string up = "blk." + std::to_string(i) + ".ffn_up_shexp.weight";
    if (const TensorInfo* tensor = file.find_tensor(up)) return tensor->shape[1];
  }
  return fallback;
}

MixtureSpec read_mixture(const ModelFile& file, const SpecKeys& keys, const ModelSpec& spec) {
  const Architecture& arch = spec.arch;
  const int n_blocks = spec.n_layers + spec.n_unused_layers;
  MixtureSpec mixture;
  mixture.n_experts = keys.integer_or("expert_count", 0, 0, kMaxExperts);
  if (mixture.n_experts == 0) return mixture;
  if (!arch.mixture.possible) {
    keys.fail("expert_count", std::to_string(mixture.n_experts),
              "0: models of architecture " + std::string(arch.name) + " have no experts");
  }
  mixture.n_used = keys.shared_integer("expert_used_count", spec.n_layers, n_blocks, 1,
                                       std::min(mixture.n_experts, kMaxUsedExperts));
  if (arch.mixture.weighs_input && mixture.n_used != 1) {
    keys.refuse("expert_used_count", std::to_string(mixture.n_used),
                "a weight multiplies an expert's input, which only one expert of a token can read");
  }
  mixture.d_expert = read_expert_width(file, keys, spec, n_blocks);
  if (arch.mixture.latent) mixture.d_latent = keys.integer_or("moe_latent_size", 0, 0, spec.d_model);
  const int n_shared = keys.integer_or("expert_shared_count", 0, 0, kMaxExperts);
  const int64_t shared = shared_width(file, spec, int64_t{n_shared} * mixture.d_expert);
  mixture.d_shared = keys.integer_or("expert_shared_feed_forward_length",
                                     std::min(SpecKeys::kMaxWidth, shared), 0, SpecKeys::kMaxWidth);
  if (mixture.d_shared > 0 && arch.mixture.beside_dense) {
    keys.fail("expert_shared_count", std::to_string(n_shared),
              "0: in architecture " + std::string(arch.name) + ", a dense FFN is beside the experts");
  }
  mixture.score = read_router_score(file, keys, arch, spec.n_layers);
  mixture.renormalize = keys.truth_or("expert_weights_norm", arch.mixture.renormalize);
  mixture.scale = static_cast<float>(keys.number_or("expert_weights_scale", 1.0, 0.0, 1e4));
  if (mixture.scale == 0.0f) mixture.scale = 1.0f;  // converters write 0 for models without a scale
  mixture.n_groups = std::max(1, keys.integer_or("expert_group_count", 1, 0, mixture.n_experts));
  if (mixture.n_experts % mixture.n_groups != 0) {
    keys.fail("expert_group_count", std::to_string(mixture.n_groups),
              "a divisor of expert_count, " + std::to_string(mixture.n_experts));
  }
  mixture.n_groups_used = keys.integer_or("expert_group_used_count", mixture.n_groups, 0, mixture.n_groups);
  if (mixture.n_groups_used == 0) mixture.n_groups_used = mixture.n_groups;
  const int reachable = mixture.n_experts / mixture.n_groups * mixture.n_groups_used;
  if (mixture.n_used > reachable) {
    keys.fail("expert_used_count", std::to_string(mixture.n_used),
              "at most the " + std::to_string(reachable) + " experts of the groups that a token uses");
  }
  return mixture;
}

/// Reads the soft caps, and the scales of embeddings, attention scores, logits, and the outputs that are
/// added to the residual stream.
void read_scales(const SpecKeys& keys, ModelSpec& spec) {
  constexpr double kLeast = 1e-6, kMost = 1e6;
  const Architecture& arch = spec.arch;
  const auto scale = [&](const char* key, double fallback) {
    const double found = keys.number_or(key, 0.0, 0.0, kMost);  // converters write 0 for "no scale"
    if (found == 0.0) return static_cast<float>(fallback);
    return static_cast<float>(keys.number(key, kLeast, kMost));
  };
  const bool by_width = arch.embedding_scale == EmbeddingScale::kRootOfWidth;
  spec.embedding_scale = scale("embedding_scale", by_width ? std::sqrt(spec.d_model) : 1.0);
  spec.residual_scale = scale("residual_scale", 1.0);
  if (arch.norms == NormPlace::kSum && spec.residual_scale != 1.0f) {
    keys.refuse("residual_scale", "not 1", "what is added is normed together with what it is added to");
  }
  const bool scored_by_width = spec.n_layers == arch.layers_scored_by_width;
  spec.attention_scale =
      scale("attention.scale", scored_by_width ? 1.0 / std::sqrt(double{1.0} * spec.d_model / spec.n_heads)
                                               : (arch.unit_scores ? 1.0 : 0.0));
  if (arch.value_scale) spec.value_scale = scale("attention.value_scale", 1.0);
  spec.attention_cap = scale("attn_logit_softcapping", double{arch.attention_cap});
  spec.logit_cap = scale("final_logit_softcapping", double{arch.logit_cap});
  spec.query_growth = scale("attention.temperature_scale", double{arch.query_growth});
  if (spec.query_growth > 0.0f && !arch.queries_grow) {
    keys.refuse("attention.temperature_scale", "not 0",
                "queries of this architecture do not grow with their position");
  }
  spec.growth_span = spec.rope.original_context;
  if (arch.growth_span > 0) {
    spec.growth_span =
        keys.integer_or("attention.temperature_length", arch.growth_span, 1, SpecKeys::kMaxContext);
  }
  if (arch.logit_scale == LogitScale::kNone) return;
  spec.logit_scale = scale("logit_scale", 1.0);
  if (arch.logit_scale == LogitScale::kDivides) spec.logit_scale = 1.0f / spec.logit_scale;
}

/// Queries have one factor for each stretch of growth_span positions, and loading computes all factors.
/// Models have a few dozen stretches. Refuses a file with so many stretches that loading would take too long.
void check_growth(const SpecKeys& keys, const ModelSpec& spec) {
  constexpr int kMaxStretches = 4096;
  if (spec.query_growth == 0.0f || spec.context_train / spec.growth_span < kMaxStretches) return;
  keys.fail(
      spec.arch.growth_span > 0 ? "attention.temperature_length" : "rope.scaling.original_context_length",
      std::to_string(spec.growth_span),
      "more than a " + std::to_string(kMaxStretches) + "th of context_length, " +
          std::to_string(spec.context_train));
}

/// The architecture determines whether tokens see later tokens. Refuses a file whose key attention.causal
/// contradicts it, because such a model was trained differently.
void check_direction(const SpecKeys& keys, const Architecture& arch) {
  const bool causal = keys.truth_or("attention.causal", !arch.looks_ahead);
  if (causal != arch.looks_ahead) return;
  keys.refuse("attention.causal", causal ? "true" : "false",
              causal ? "attention of this architecture looks ahead"
                     : "attention of this architecture does not look ahead");
}

/// Returns whether layers are parallel, which for some architectures depends on a key or tensor of the file.
bool read_parallel(const ModelFile& file, const SpecKeys& keys, const Architecture& arch) {
  switch (arch.parallel_from) {
    case ParallelFrom::kKey:
      return keys.truth_or("use_parallel_residual", true);
    case ParallelFrom::kTensors:
      return file.find_tensor("blk.0.ffn_norm.weight") == nullptr;
    case ParallelFrom::kArchitecture:
      break;
  }
  return arch.parallel_attention;
}

void refuse_unknown_sparse(const ModelFile& file, const Architecture& arch) {
  if (!file.is_powerinfer() || arch.powerinfer_activation) return;
  std::string known;
  for (const Architecture& other : architectures()) {
    if (other.powerinfer_activation) known += (known.empty() ? "" : ", ") + std::string(other.name);
  }
  file_error::fail(file_error::file_label(file.path().string()),
                   "it is a PowerInfer file (magic PWRI) of architecture " + std::string(arch.name) +
                       ", which has no sparse form, expected one of " + known +
                       "; use the model's plain GGUF version");
}

/// Reads PowerInfer's threshold. If the model's predictors have no threshold, the key is missing and the
/// threshold is 0.
float read_sparse_threshold(const ModelFile& file) {
  constexpr const char* kKey = "powerinfer.sparse_threshold";
  const double threshold = file.find_float(kKey).value_or(0.0);
  if (!std::isfinite(threshold) || std::abs(threshold) > std::numeric_limits<float>::max()) {
    file_error::fail(file_error::file_label(file.path().string()),
                     std::string("key \"") + kKey +
                         "\" is not a finite number, expected one that "
                         "predictors' logits can reach; convert the model again");
  }
  return static_cast<float>(threshold);
}

/// n_of_layers: the number that an array of the layers' numbers gives, if the file may have such an array.
int read_kv_heads(const SpecKeys& keys, int n_heads, std::optional<int> n_of_layers = {}) {
  const int n = n_of_layers ? *n_of_layers : keys.integer_or("attention.head_count_kv", n_heads, 1, n_heads);
  if (n_heads % n != 0) {
    keys.fail("attention.head_count_kv", std::to_string(n),
              "a divisor of head_count, " + std::to_string(n_heads));
  }
  return n;
}

/// Returns the width of a head as stored in the file, or else d_model / n_heads.
int read_head_dim(const SpecKeys& keys, const ModelSpec& spec) {
  int head_dim = 0;
  if (keys.has("attention.key_length")) {
    head_dim = keys.integer("attention.key_length", 2, SpecKeys::kMaxHeadDim);
    if (head_dim % 2 != 0) keys.fail("attention.key_length", std::to_string(head_dim), "an even number");
  } else {
    head_dim = spec.d_model / spec.n_heads;
    // RoPE rotates one half of a head together with the other, so the number of dimensions must be even.
    if (spec.d_model % (2 * spec.n_heads) != 0 || head_dim > SpecKeys::kMaxHeadDim) {
      keys.fail("embedding_length", std::to_string(spec.d_model),
                "an even multiple, up to " + std::to_string(SpecKeys::kMaxHeadDim) +
                    " times, of head_count, " + std::to_string(spec.n_heads));
    }
  }
  const int value_length = keys.integer_or("attention.value_length", head_dim, 1, SpecKeys::kMaxHeadDim);
  if (value_length != head_dim && !(spec.arch.short_values && value_length < head_dim)) {
    keys.fail("attention.value_length", std::to_string(value_length),
              (spec.arch.short_values ? "at most the length of a key, " : "the length of a key, ") +
                  std::to_string(head_dim));
  }
  if (int64_t{spec.n_heads} * head_dim > SpecKeys::kMaxWidth) {
    keys.fail("attention.key_length", std::to_string(head_dim),
              "at most " + std::to_string(SpecKeys::kMaxWidth) + " in all " + std::to_string(spec.n_heads) +
                  " heads");
  }
  return head_dim;
}

/// Reads the sizes of latent attention. Files from before April 2025 store the key and value lengths of whole
/// heads under the names that newer files use for the latent's lengths.
LatentSpec read_latent(const SpecKeys& keys, const Architecture& arch, int n_heads,
                       std::optional<int> n_of_layers) {
  LatentSpec latent;
  if (!arch.latent) return latent;
  const bool old = !keys.has("attention.key_length_mla");
  const std::string key_length = old ? "attention.key_length" : "attention.key_length_mla";
  const std::string value_length = old ? "attention.value_length" : "attention.value_length_mla";
  const int n_kv_heads = read_kv_heads(keys, n_heads, n_of_layers);
  if (n_kv_heads != 1 && n_kv_heads != n_heads) {
    keys.fail("attention.head_count_kv", std::to_string(n_kv_heads),
              "1 or head_count, " + std::to_string(n_heads) + ": all heads have one latent");
  }
  latent.kv_rank = keys.integer("attention.kv_lora_rank", 1, SpecKeys::kMaxHeadDim);
  latent.q_rank = keys.integer_or("attention.q_lora_rank", 0, 0, SpecKeys::kMaxWidth);
  latent.d_rope = keys.integer("rope.dimension_count", 2, SpecKeys::kMaxHeadDim);
  const int d_key = keys.integer(key_length, 2, SpecKeys::kMaxHeadDim);
  latent.d_nope = d_key - latent.d_rope;
  latent.d_value = keys.integer(value_length, 1, SpecKeys::kMaxHeadDim);
  if (latent.d_nope < 1) {
    keys.fail(key_length, std::to_string(d_key),
              "more than rope.dimension_count, " + std::to_string(latent.d_rope));
  }
  const int head_dim = latent.kv_rank + latent.d_rope;
  if (head_dim > SpecKeys::kMaxHeadDim || int64_t{n_heads} * head_dim > SpecKeys::kMaxWidth) {
    keys.fail("attention.kv_lora_rank", std::to_string(latent.kv_rank),
              "at most " + std::to_string(SpecKeys::kMaxHeadDim) + " with rope.dimension_count, and " +
                  std::to_string(SpecKeys::kMaxWidth) + " in all " + std::to_string(n_heads) + " heads");
  }
  const int64_t widest = int64_t{n_heads} * std::max(d_key, latent.d_value);
  if (widest > SpecKeys::kMaxWidth) {
    keys.fail(key_length, std::to_string(d_key),
              "keys and values of at most " + std::to_string(SpecKeys::kMaxWidth) + " in all " +
                  std::to_string(n_heads) + " heads");
  }
  if (!old && keys.has("attention.key_length")) {
    keys.integer("attention.key_length", head_dim, head_dim);
    // Converters of Kimi Linear write another number, which has no meaning.
    if (!arch.row_decays) keys.integer("attention.value_length", latent.kv_rank, latent.kv_rank);
  }
  return latent;
}

/// Returns the scale of attention scores, for heads with d_nope + d_rope numbers. It includes the temperature
/// of the YaRN paper: DeepSeek multiplies scores by the temperature's square, while other models multiply
/// cosines and sines by the temperature.
float latent_score_scale(const SpecKeys& keys, const LatentSpec& latent, const RopeSpec& rope) {
  const double multiplier = keys.number_or("rope.scaling.yarn_log_multiplier", 0.0, 0.0, 10.0);
  const bool tempers = rope.scaling == RopeScaling::kYarn && rope.factor > 1.0;
  const double temperature = tempers ? 1.0 + multiplier * std::log(rope.factor) : 1.0;
  return static_cast<float>(temperature * temperature / std::sqrt(latent.d_nope + latent.d_rope));
}

RecurrentShape read_short_conv(const SpecKeys& keys, int d_model) {
  return {.n_taps = keys.integer("shortconv.l_cache", RecurrentShape::kMinTaps, RecurrentShape::kMaxTaps),
          .kind = RecurrentKind::kShortConv,
          .n_channels = d_model};
}

int read_vocab_size(const ModelFile& file) {
  const TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) {
    file_error::fail(file_error::file_label(file.path().string()),
                     "tensor \"token_embd.weight\" is missing, so the file is not a whole model (a "
                     "vocabulary or an adapter, perhaps); give the model's own GGUF file");
  }
  const int64_t n_vocab = embedding->shape[1];
  if (n_vocab > std::numeric_limits<int32_t>::max()) {
    file_error::fail(file_error::file_label(file.path().string()),
                     "tensor \"token_embd.weight\" has " +
                         file_error::with_commas(static_cast<uint64_t>(n_vocab)) +
                         " rows, expected no more than token ids can count; the file is damaged");
  }
  return static_cast<int>(n_vocab);
}

/// Returns the number of learned positions. The first position_offset rows of their table, before the row of
/// position 0, are padding and do not count.
int read_positions(const ModelFile& file, const Architecture& arch) {
  constexpr const char* kTable = "position_embd.weight";
  const TensorInfo* table = file.find_tensor(kTable);
  const std::string label = file_error::file_label(file.path().string());
  if (table == nullptr) {
    file_error::fail(label, std::string("tensor \"") + kTable +
                                "\" is missing, expected the learned positions of " + std::string(arch.name) +
                                "; the file is incomplete: download it again");
  }
  const int64_t n_positions = table->shape[1] - *arch.position_offset;
  if (n_positions < 1 || n_positions > SpecKeys::kMaxContext) {
    file_error::fail(label, std::string("tensor \"") + kTable + "\" has " + std::to_string(table->shape[1]) +
                                " rows, expected one for each position and " +
                                std::to_string(*arch.position_offset) + " before them; the file is damaged");
  }
  return static_cast<int>(n_positions);
}

/// Refuses a file that has only the layers that predict later tokens.
void refuse_only_unused(const ModelFile& file, const ModelSpec& spec) {
  const std::string part = "blk." + std::to_string(spec.n_layers) + ".nextn.eh_proj.weight";
  if (spec.n_unused_layers == 0 || file.find_tensor("blk.0.attn_norm.weight") != nullptr ||
      file.find_tensor(part) == nullptr) {
    return;
  }
  file_error::fail(file_error::file_label(file.path().string()),
                   "it has a layer that predicts later tokens (tensor " + file_error::quoted(part) +
                       ") without the " + std::to_string(spec.n_layers) +
                       " layers before it, expected a whole model; give the model's own GGUF file");
}

/// Returns d_ff for files without the key feed_forward_length. Throws if a layer needs it.
int width_without_key(const SpecKeys& keys, const ModelSpec& spec) {
  const bool all_mixtures = std::ranges::all_of(
      spec.layers, [](const LayerSpec& layer) { return layer.experts || !layer.has_ffn; });
  return all_mixtures ? spec.mixture.d_expert : keys.integer("feed_forward_length", 1, SpecKeys::kMaxWidth);
}

}  // namespace

int ModelSpec::window() const {
  int window = 0;
  for (const LayerSpec& layer : layers) window = std::max(window, layer.window);
  return window;
}

std::string_view ModelSpec::cpu_only_kind() const {
  if (arch.looks_ahead) return "an encoder";
  if (n_scores > 0) return "a reranker";
  if (mixture.d_latent > 0) return "a mixture with latent experts";
  return {};
}

std::string ModelSpec::why_context_on_cpu(int context_tokens) const {
  if (!needs_indexer(context_tokens)) return {};
  return "A context of more than " + std::to_string(indexer.top_k) +
         " tokens, from which the model's indexers choose, runs on the CPU only";
}

int ModelSpec::widest_head_dim() const {
  int widest = head_dim;
  for (const LayerSpec& layer : layers) widest = std::max(widest, layer.head_dim);
  return widest;
}

int ModelSpec::kv_dim() const {
  int widest = layers.empty() ? n_kv_heads * head_dim : 0;
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) widest = std::max(widest, kv_dim(i));
  return widest;
}

namespace {

/// own_only: without the layers that predict later tokens; false: they count as layers of the model.
ModelSpec read_spec(const ModelFile& file, const Architecture& arch, std::string_view ffn_activation,
                    bool own_only) {
  refuse_unknown_sparse(file, arch);
  const SpecKeys keys(file, arch.name);
  check_direction(keys, arch);

  ModelSpec spec;
  spec.arch = arch;
  spec.arch.parallel_attention = read_parallel(file, keys, arch);
  spec.gated = arch.gated;
  spec.powerinfer = spec.predictors = file.is_powerinfer();
  spec.sparse_threshold = read_sparse_threshold(file);
  spec.activation = decide_ffn_activation(file, arch, ffn_activation);
  spec.name = file.find_string("general.name").value_or("");
  const int n_blocks = keys.integer("block_count", 1, SpecKeys::kMaxLayers);
  if (own_only) spec.n_unused_layers = keys.integer_or("nextn_predict_layers", 0, 0, n_blocks - 1);
  spec.n_layers = n_blocks - spec.n_unused_layers;
  refuse_only_unused(file, spec);
  spec.d_model = keys.integer("embedding_length", 1, SpecKeys::kMaxWidth);
  if (keys.has("feed_forward_length") && !arch.one_block) {
    constexpr const char* kWidth = "feed_forward_length";
    spec.d_ff = arch.window_heads ? read_widest_ffn(keys, spec, n_blocks)
                : arch.shares_kv
                    ? keys.shared_integer(kWidth, spec.n_layers, n_blocks, 1, SpecKeys::kMaxWidth)
                    : keys.integer(kWidth, 1, SpecKeys::kMaxWidth);
  }
  LayerHeads heads;
  if (arch.heads_of_layers) heads = read_layer_heads(keys, spec.n_layers, n_blocks);
  if (arch.all_recur) {
    spec.n_heads = 1;  // files have 0
  } else {
    spec.n_heads = arch.heads_of_layers ? std::ranges::max(heads.queries)
                                        : keys.integer("attention.head_count", 1, SpecKeys::kMaxHeads);
  }
  LayerKinds kinds;
  const bool is_delta = arch.recurrent == RecurrentKind::kGatedDelta && !arch.row_decays;
  if (is_delta) {
    spec.recurrent = read_delta(keys, arch);
    kinds.recurrent = read_recurrent_layers(keys, spec.n_layers, n_blocks);
  }
  const bool is_mamba = arch.recurrent == RecurrentKind::kMamba2;
  // Whether the layers without key/value heads are the recurrent ones.
  const bool by_heads = arch.recurrent && !is_delta && !arch.recurs_beside_attention && !arch.all_recur;
  if (arch.recurs_beside_attention || arch.all_recur) {
    spec.recurrent = read_mamba(keys);
    kinds.recurrent.assign(static_cast<size_t>(spec.n_layers), true);
    if (arch.all_recur) kinds.has_ffn.assign(static_cast<size_t>(spec.n_layers), false);
  } else if (by_heads) {
    const bool experts = keys.integer_or("expert_count", 0, 0, kMaxExperts) > 0;
    kinds = read_layer_kinds(keys, arch, spec.n_heads, experts, spec.n_layers, n_blocks);
    if (std::ranges::find(kinds.recurrent, true) != kinds.recurrent.end())
      spec.recurrent = arch.row_decays ? read_kda(keys, spec.n_heads)
                       : is_mamba      ? read_mamba(keys)
                                       : read_short_conv(keys, spec.d_model);
    if (arch.one_block) spec.d_ff = kinds.d_ff;
  }
  spec.latent =
      read_latent(keys, arch, spec.n_heads, by_heads ? std::optional(kinds.n_kv_heads) : std::nullopt);
  if (spec.latent) {
    spec.n_kv_heads = 1;
    spec.head_dim = spec.latent.kv_rank + spec.latent.d_rope;
  } else if (arch.all_recur) {
    spec.n_kv_heads = 1;
    spec.head_dim = 2;  // sizes the buffers of attention, which no layer has
  } else {
    std::optional<int> of_layers;
    if (is_delta) of_layers = read_kv_heads_of_layers(keys, kinds.recurrent, spec.n_heads, n_blocks);
    if (by_heads) of_layers = kinds.n_kv_heads;
    if (arch.window_heads) of_layers = read_most_kv_heads(keys, spec, n_blocks);
    spec.n_kv_heads =
        arch.heads_of_layers ? std::ranges::max(heads.keys) : read_kv_heads(keys, spec.n_heads, of_layers);
    spec.head_dim = read_head_dim(keys, spec);
    if (arch.short_values) {
      const int d_value = keys.integer_or("attention.value_length", spec.head_dim, 1, spec.head_dim);
      if (d_value < spec.head_dim) spec.d_value = d_value;
    }
  }
  spec.n_vocab = read_vocab_size(file);
  spec.context_train = keys.integer("context_length", 1, SpecKeys::kMaxContext);
  if (arch.position_offset) spec.context_train = std::min(spec.context_train, read_positions(file, arch));
  const char* eps_key = "attention.layer_norm_rms_epsilon";
  if (arch.norm != NormKind::kRms || (arch.one_block && !keys.has(eps_key)))
    eps_key = "attention.layer_norm_epsilon";
  spec.norm_eps = static_cast<float>(
      arch.default_norm_eps > 0.0f ? keys.number_or(eps_key, double{arch.default_norm_eps}, kMinEps, 1.0)
                                   : keys.number(eps_key, kMinEps, 1.0));
  spec.rope = read_rope(keys, arch, spec.head_dim, spec.context_train);
  if (arch.window.unscaled) {
    spec.local_rope = read_local_rope(keys, arch, spec.n_heads, spec.head_dim, spec.rope);
  }
  if (arch.window.full_half) spec.rope.n_rot = std::max(2, spec.rope.n_rot / 4 * 2);
  if (is_delta || arch.rope_axes) check_rope_sections(keys, spec.rope.n_rot);
  spec.mixture = read_mixture(file, keys, spec);
  spec.layers = read_layers(keys, arch, spec, kinds);
  if (arch.window_heads) read_window_heads(keys, n_blocks, spec);
  if (arch.heads_of_layers) set_layer_heads(heads, spec);
  if (arch.shares_kv) read_shared_kv(keys, spec);
  if (arch.streams) {
    spec.n_streams = keys.integer("altup.num_inputs", 2, kMaxStreams);
    spec.active_stream = keys.integer("altup.active_idx", 0, spec.n_streams - 1);
  }
  read_layer_activations(keys, n_blocks, spec);
  if (arch.layer_embeddings) {
    // Layers with several streams always add these embeddings.
    const std::string length = "embedding_length_per_layer_input";
    spec.d_layer_embedding = arch.streams ? keys.integer(length, 1, SpecKeys::kMaxWidth)
                                          : keys.integer_or(length, 0, 0, SpecKeys::kMaxWidth);
  }
  if (spec.d_ff == 0) spec.d_ff = width_without_key(keys, spec);
  read_scales(keys, spec);
  if (spec.latent) spec.attention_scale = latent_score_scale(keys, spec.latent, spec.rope);
  check_growth(keys, spec);
  if (arch.indexer_rope != RopeKind::kNone) read_indexer(keys, n_blocks, spec);
  read_head(keys, spec);
  return spec;
}

}  // namespace

ModelSpec read_model_spec(const ModelFile& file, std::string_view ffn_activation) {
  return read_spec(file, architecture_of(file), ffn_activation, /*own_only=*/true);
}

std::vector<LayerSpec> read_nextn_layers(const ModelFile& file, const ModelSpec& spec) {
  const std::vector<LayerSpec> all = read_spec(file, spec.arch, {}, /*own_only=*/false).layers;
  return {all.begin() + spec.n_layers, all.end()};
}

ModelSpec read_assistant_spec(const ModelFile& file) {
  return read_spec(file, assistant_architecture(), {}, /*own_only=*/false);
}

}  // namespace hearth
