// Architectures as a table, and the reading of one model's keys into a ModelSpec.
#include "engine/model_spec.h"

#include <array>
#include <cmath>
#include <limits>

namespace hearth {
namespace {

// RoPE pairing is GGUF's convention: converters permute q and k of "llama" so that pairs are adjacent.
constexpr std::array<Architecture, 3> kArchitectures = {{
    {.name = "llama", .rope = RopeKind::kInterleaved},
    {.name = "qwen2", .rope = RopeKind::kHalves, .qkv_bias = true},
    {.name = "qwen3", .rope = RopeKind::kHalves, .qk_norm = true},
}};

// No model comes near these; a file beyond them is damaged, and sizes computed from it would be absurd.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxContext = 1 << 24;

/// Keys of one file under its architecture's prefix, with the checks every key needs.
class Keys {
 public:
  Keys(const ModelFile& file, std::string_view arch) : file_(file), prefix_(std::string(arch) + ".") {}

  int integer(const std::string& key, int64_t low, int64_t high) const {
    return check(key, file_.get_int(prefix_ + key), low, high);
  }
  int integer_or(const std::string& key, int64_t fallback, int64_t low, int64_t high) const {
    const std::optional<int64_t> found = file_.find_int(prefix_ + key);
    return found ? check(key, *found, low, high) : static_cast<int>(fallback);
  }
  double number_or(const std::string& key, double fallback, double low, double high) const {
    const std::optional<double> found = file_.find_float(prefix_ + key);
    if (!found) return fallback;
    if (!std::isfinite(*found) || *found < low || *found > high) {
      fail(key, std::to_string(*found),
           "a number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return *found;
  }
  std::string text_or(const std::string& key, std::string_view fallback) const {
    return std::string(file_.find_string(prefix_ + key).value_or(fallback));
  }
  [[noreturn]] void fail(const std::string& key, const std::string& found,
                         const std::string& expected) const {
    throw ModelFileError(file_.path().string() + ": key " + prefix_ + key + " is " + found + ", expected " +
                         expected + "; the file is damaged or made for another program.");
  }

 private:
  int check(const std::string& key, int64_t value, int64_t low, int64_t high) const {
    if (value < low || value > high) {
      fail(key, std::to_string(value),
           "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return static_cast<int>(value);
  }

  const ModelFile& file_;
  std::string prefix_;
};

const Architecture& architecture_of(const ModelFile& file) {
  const std::string_view name = file.get_string("general.architecture");
  std::string known;
  for (const Architecture& arch : kArchitectures) {
    if (arch.name == name) return arch;
    known += (known.empty() ? "" : ", ") + std::string(arch.name);
  }
  throw ModelFileError(file.path().string() + ": general.architecture is \"" +
                       std::string(name.substr(0, 64)) + "\", which Hearth does not run yet; it runs " +
                       known + ".");
}

RopeSpec read_rope(const Keys& keys, int head_dim, int context_train) {
  RopeSpec rope;
  rope.n_rot = keys.integer_or("rope.dimension_count", head_dim, 2, head_dim);
  if (rope.n_rot % 2 != 0) keys.fail("rope.dimension_count", std::to_string(rope.n_rot), "an even number");
  rope.base = keys.number_or("rope.freq_base", 10000.0, 1.0, 1e12);
  // Files from before 2023-10 give linear scaling by this key alone.
  rope.factor = keys.number_or("rope.scale_linear", 1.0, 1e-3, 1e6);
  if (rope.factor != 1.0) rope.scaling = RopeScaling::kLinear;
  const std::string type = keys.text_or("rope.scaling.type", "");
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
  } else if (!type.empty() && type != "none") {
    keys.fail("rope.scaling.type", "\"" + type.substr(0, 64) + "\"", "none, linear or yarn");
  }
  rope.factor = keys.number_or("rope.scaling.factor", rope.factor, 1e-3, 1e6);
  rope.original_context =
      keys.integer_or("rope.scaling.original_context_length", context_train, 1, kMaxContext);
  rope.attn_factor = keys.number_or("rope.scaling.attn_factor", 1.0, 1e-3, 1e3);
  rope.beta_fast = keys.number_or("rope.scaling.yarn_beta_fast", 32.0, 1e-3, 1e6);
  rope.beta_slow = keys.number_or("rope.scaling.yarn_beta_slow", 1.0, 1e-3, 1e6);
  return rope;
}

/// The FFN's activation: the architecture's, unless the file names another by Hearth's own key (ReLU-family
/// fine-tunes of llama say nothing about it in GGUF's keys).
Activation read_activation(const ModelFile& file, const Architecture& arch) {
  const std::optional<std::string_view> name = file.find_string("hearth.ffn_activation");
  if (!name) return arch.activation;
  if (*name == "silu") return Activation::kSilu;
  if (*name == "gelu") return Activation::kGelu;
  if (*name == "relu") return Activation::kRelu;
  throw ModelFileError(file.path().string() + ": key hearth.ffn_activation is \"" +
                       std::string(name->substr(0, 64)) + "\", expected silu, gelu or relu.");
}

int read_vocab_size(const ModelFile& file) {
  const TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) {
    throw ModelFileError(
        file.path().string() +
        ": tensor token_embd.weight is missing; this file holds no whole model (a vocabulary or an "
        "adapter, perhaps). Give the model's own GGUF file.");
  }
  const int64_t n_vocab = embedding->shape[1];
  if (n_vocab > std::numeric_limits<int32_t>::max()) {
    throw ModelFileError(file.path().string() + ": tensor token_embd.weight has " + std::to_string(n_vocab) +
                         " rows, more than token ids can count.");
  }
  return static_cast<int>(n_vocab);
}

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

ModelSpec read_model_spec(const ModelFile& file) {
  const Architecture& arch = architecture_of(file);
  const Keys keys(file, arch.name);
  if (const int n_experts = keys.integer_or("expert_count", 0, 0, 1 << 16); n_experts > 0) {
    keys.fail("expert_count", std::to_string(n_experts), "0: mixtures of experts do not run yet");
  }

  ModelSpec spec;
  spec.arch = arch;
  spec.arch.activation = read_activation(file, arch);
  spec.name = file.find_string("general.name").value_or("");
  spec.n_layers = keys.integer("block_count", 1, kMaxLayers);
  spec.d_model = keys.integer("embedding_length", 1, kMaxWidth);
  spec.d_ff = keys.integer("feed_forward_length", 1, kMaxWidth);
  spec.n_heads = keys.integer("attention.head_count", 1, kMaxHeads);
  spec.n_kv_heads = keys.integer_or("attention.head_count_kv", spec.n_heads, 1, spec.n_heads);
  if (spec.n_heads % spec.n_kv_heads != 0) {
    keys.fail("attention.head_count_kv", std::to_string(spec.n_kv_heads),
              "a divisor of head_count, " + std::to_string(spec.n_heads));
  }
  spec.head_dim = keys.integer_or("attention.key_length", spec.d_model / spec.n_heads, 1, kMaxHeadDim);
  if (spec.head_dim < 2 || spec.head_dim % 2 != 0) {
    keys.fail("attention.key_length", std::to_string(spec.head_dim), "an even number of at least 2");
  }
  const int value_length = keys.integer_or("attention.value_length", spec.head_dim, 1, kMaxHeadDim);
  if (value_length != spec.head_dim) {
    keys.fail("attention.value_length", std::to_string(value_length),
              "key_length, " + std::to_string(spec.head_dim));
  }
  spec.n_vocab = read_vocab_size(file);
  spec.context_train = keys.integer("context_length", 1, kMaxContext);
  spec.sliding_window = keys.integer_or("attention.sliding_window", 0, 0, kMaxContext);
  const char* eps_key =
      arch.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
  spec.norm_eps = static_cast<float>(keys.number_or(eps_key, 1e-5, 0.0, 1.0));
  spec.rope = read_rope(keys, spec.head_dim, spec.context_train);
  return spec;
}

}  // namespace hearth
