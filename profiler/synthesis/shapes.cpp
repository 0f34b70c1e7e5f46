// The table of shapes. Their sizes come from the models' own configurations.
#include "profiler/synthesis/shapes.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace hearth {
namespace {

/// The recurrent layers of Qwen3-Next and its successors.
constexpr RecurrentShape delta_net(int n_v_heads, bool tiled) {
  return {.n_k_heads = 16, .n_v_heads = n_v_heads, .head_dim = 128, .n_taps = 4, .tiled = tiled};
}

// The predictor rank is a quarter of d_model, because PowerInfer's predictors for ReluLLaMA-7B have ranks of
// 1,280 to 2,048 in later layers and lower ranks in earlier layers. The tiny shapes are not real models, but
// keep tests fast.
constexpr auto kShapes = std::to_array<ModelShape>({
    // name, architecture, d_model, d_ff, layers, heads, kv heads, vocabulary, context, rank
    {"tiny", "llama", 256, 1024, 4, 8, 4, 2048, 2048, 128},
    {"1b", "llama", 2048, 5632, 22, 32, 4, 32000, 2048, 512},
    {"7b", "llama", 4096, 11008, 32, 32, 32, 32000, 4096, 1024},
    {"13b", "llama", 5120, 13824, 40, 40, 40, 32000, 4096, 1280},
    {"70b", "llama", 8192, 28672, 80, 64, 8, 32000, 4096, 2048},
    {"tiny-bamboo", "bamboo", 256, 1024, 4, 8, 4, 2048, 2048, 128},
    {"bamboo-7b", "bamboo", 4096, 14336, 32, 32, 8, 32000, 4096, 1024},
    {"tiny-falcon", "falcon", 256, 1024, 4, 8, 4, 2048, 2048, 128},
    {"falcon-40b", "falcon", 8192, 32768, 60, 128, 8, 65024, 2048, 2048},
    {"tiny-opt", "opt", 256, 1024, 4, 8, 8, 2048, 2048, 128},
    {"opt-6.7b", "opt", 4096, 16384, 32, 32, 32, 50272, 2048, 1024},
    {"opt-30b", "opt", 7168, 28672, 48, 56, 56, 50272, 2048, 1792},
    {"opt-66b", "opt", 9216, 36864, 64, 72, 72, 50272, 2048, 2304},
    {"opt-175b", "opt", 12288, 49152, 96, 96, 96, 50272, 2048, 3072},

    // Dense models whose neurons are never zero.
    {.name = "phi3-mini",
     .architecture = "phi3",
     .d_model = 3072,
     .d_ff = 8192,
     .n_layers = 32,
     .n_heads = 32,
     .n_kv_heads = 32,
     .n_vocab = 32064,
     .context_tokens = 4096,
     .rope_base = 10000.0,
     .window = 2047},
    {.name = "gemma3-4b",
     .architecture = "gemma3",
     .d_model = 2560,
     .d_ff = 10240,
     .n_layers = 34,
     .n_heads = 8,
     .n_kv_heads = 4,
     .n_vocab = 262144,
     .context_tokens = 131072,
     .d_head = 256,
     .rope_base = 1e6,
     .window = 1024,
     .tied = true},

    {.name = "qwen3.5-4b",
     .architecture = "qwen35",
     .d_model = 2560,
     .d_ff = 9216,
     .n_layers = 32,
     .n_heads = 16,
     .n_kv_heads = 4,
     .n_vocab = 248320,
     .context_tokens = 262144,
     .d_head = 256,
     .rope_base = 1e7,
     .tied = true,
     .full_interval = 4,
     .recurrent = delta_net(32, true),
     .n_rot = 64},
    {.name = "qwen3.6-27b",
     .architecture = "qwen35",
     .d_model = 5120,
     .d_ff = 17408,
     .n_layers = 64,
     .n_heads = 24,
     .n_kv_heads = 4,
     .n_vocab = 248320,
     .context_tokens = 262144,
     .d_head = 256,
     .rope_base = 1e7,
     .full_interval = 4,
     .recurrent = delta_net(48, true),
     .n_rot = 64},

    {.name = "gemma-4-e4b",
     .architecture = "gemma4",
     .d_model = 2560,
     .d_ff = 10240,
     .n_layers = 42,
     .n_heads = 8,
     .n_kv_heads = 2,
     .n_vocab = 262144,
     .context_tokens = 131072,
     .d_head = 512,
     .rope_base = 1e6,
     .window = 512,
     .tied = true,
     .full_interval = 6,
     .d_head_window = 256,
     .n_shared_kv = 18,
     .d_layer_embedding = 256,
     .logit_cap = 30.0},

    // Mixtures of experts.
    {.name = "tiny-moe",
     .architecture = "qwen3moe",
     .d_model = 256,
     .d_ff = 1024,
     .n_layers = 4,
     .n_heads = 8,
     .n_kv_heads = 4,
     .n_vocab = 2048,
     .context_tokens = 2048,
     .d_head = 64,
     .rope_base = 10000.0,
     .n_experts = 16,
     .n_used = 4,
     .d_expert = 128},
    {.name = "qwen3-30b-a3b",
     .architecture = "qwen3moe",
     .d_model = 2048,
     .d_ff = 6144,
     .n_layers = 48,
     .n_heads = 32,
     .n_kv_heads = 4,
     .n_vocab = 151936,
     .context_tokens = 40960,
     .d_head = 128,
     .rope_base = 1e6,
     .n_experts = 128,
     .n_used = 8,
     .d_expert = 768},
    {.name = "mixtral-8x7b",
     .architecture = "llama",
     .d_model = 4096,
     .d_ff = 14336,
     .n_layers = 32,
     .n_heads = 32,
     .n_kv_heads = 8,
     .n_vocab = 32000,
     .context_tokens = 32768,
     .rope_base = 1e6,
     .n_experts = 8,
     .n_used = 2,
     .d_expert = 14336},
    {.name = "gpt-oss-20b",
     .architecture = "gpt-oss",
     .d_model = 2880,
     .d_ff = 2880,
     .n_layers = 24,
     .n_heads = 64,
     .n_kv_heads = 8,
     .n_vocab = 201088,
     .context_tokens = 131072,
     .d_head = 64,
     .rope_base = 150000.0,
     .window = 128,
     .n_experts = 32,
     .n_used = 4,
     .d_expert = 2880,
     .mxfp4_experts = true},
    {.name = "gpt-oss-120b",
     .architecture = "gpt-oss",
     .d_model = 2880,
     .d_ff = 2880,
     .n_layers = 36,
     .n_heads = 64,
     .n_kv_heads = 8,
     .n_vocab = 201088,
     .context_tokens = 131072,
     .d_head = 64,
     .rope_base = 150000.0,
     .window = 128,
     .n_experts = 128,
     .n_used = 4,
     .d_expert = 2880,
     .mxfp4_experts = true},
    {.name = "glm-4.5-air",
     .architecture = "glm4moe",
     .d_model = 4096,
     .d_ff = 10944,
     .n_layers = 46,
     .n_heads = 96,
     .n_kv_heads = 8,
     .n_vocab = 151552,
     .context_tokens = 131072,
     .d_head = 128,
     .rope_base = 1e6,
     .n_experts = 128,
     .n_used = 8,
     .d_expert = 1408,
     .d_shared = 1408,
     .n_dense = 1},
    {.name = "qwen3.6-35b-a3b",
     .architecture = "qwen35moe",
     .d_model = 2048,
     .d_ff = 512,
     .n_layers = 40,
     .n_heads = 16,
     .n_kv_heads = 2,
     .n_vocab = 248320,
     .context_tokens = 262144,
     .d_head = 256,
     .rope_base = 1e7,
     .n_experts = 256,
     .n_used = 8,
     .d_expert = 512,
     .d_shared = 512,
     .full_interval = 4,
     .recurrent = delta_net(32, true),
     .n_rot = 64},
    {.name = "gemma-4-26b-a4b",
     .architecture = "gemma4",
     .d_model = 2816,
     .d_ff = 2112,
     .n_layers = 30,
     .n_heads = 16,
     .n_kv_heads = 8,
     .n_vocab = 262144,
     .context_tokens = 262144,
     .d_head = 512,
     .rope_base = 1e6,
     .window = 1024,
     .tied = true,
     .n_experts = 128,
     .n_used = 8,
     .d_expert = 704,
     .full_interval = 6,
     .d_head_window = 256,
     .n_kv_heads_full = 2,
     .values_from_keys = true,
     .logit_cap = 30.0},
    {.name = "nemotron-3-nano",
     .architecture = "nemotron_h_moe",
     .d_model = 2688,
     .d_ff = 1856,
     .n_layers = 52,
     .n_heads = 32,
     .n_kv_heads = 2,
     .n_vocab = 131072,
     .context_tokens = 262144,
     .d_head = 128,
     .rope_base = 10000.0,
     .n_experts = 128,
     .n_used = 6,
     .d_expert = 1856,
     .d_shared = 3712,
     .recurrent = {.n_k_heads = 8,
                   .n_v_heads = 64,
                   .head_dim = 64,
                   .n_taps = 4,
                   .key_rows = 128,
                   .kind = RecurrentKind::kMamba2},
     .blocks = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
     .n_rot = 84},
    {.name = "qwen3-coder-next",
     .architecture = "qwen3next",
     .d_model = 2048,
     .d_ff = 5120,
     .n_layers = 48,
     .n_heads = 16,
     .n_kv_heads = 2,
     .n_vocab = 151936,
     .context_tokens = 262144,
     .d_head = 256,
     .rope_base = 5e6,
     .n_experts = 512,
     .n_used = 10,
     .d_expert = 512,
     .d_shared = 512,
     .full_interval = 4,
     .recurrent = delta_net(32, false),
     .n_rot = 64},
    {.name = "tiny-moe-relu",
     .architecture = "smallthinker",
     .d_model = 256,
     .d_ff = 128,
     .n_layers = 4,
     .n_heads = 8,
     .n_kv_heads = 4,
     .n_vocab = 2048,
     .context_tokens = 2048,
     .d_head = 64,
     .rope_base = 10000.0,
     .window = 512,
     .n_experts = 16,
     .n_used = 4,
     .d_expert = 128},
    {.name = "smallthinker-21b-a3b",
     .architecture = "smallthinker",
     .d_model = 2560,
     .d_ff = 768,
     .n_layers = 52,
     .n_heads = 28,
     .n_kv_heads = 4,
     .n_vocab = 151936,
     .context_tokens = 16384,
     .d_head = 128,
     .rope_base = 1.5e6,
     .window = 4096,
     .n_experts = 64,
     .n_used = 6,
     .d_expert = 768},
});

}  // namespace

int ModelShape::first_shared_kv() const {
  if (n_shared_kv == 0) return n_layers;
  const ModelShape& whole = *find_shape(name);
  const int n_own = (n_layers * (whole.n_layers - n_shared_kv) + whole.n_layers - 1) / whole.n_layers;
  return std::min(n_layers, std::max(n_own, full_interval));
}

int ModelShape::kv_source(int layer) const {
  const int n_own = first_shared_kv();
  if (layer < n_own) return -1;
  int source = n_own - 1;
  while (source > 0 && is_full(source) != is_full(layer)) --source;
  return source;
}

ModelShape with_layers(ModelShape shape, int n_layers) {
  const auto attention = shape.blocks.find('*');
  const int least = shape.blocks.empty() ? std::max(2, shape.full_interval) : static_cast<int>(attention) + 1;
  const int most = static_cast<int>(shape.blocks.size());
  if (n_layers < least || (most > 0 && n_layers > most)) {
    throw std::invalid_argument(std::string(shape.name) + " has layers of several kinds, so it takes " +
                                (most > 0 ? std::to_string(least) + " to " + std::to_string(most)
                                          : "at least " + std::to_string(least)) +
                                " layers, not " + std::to_string(n_layers) + ".");
  }
  shape.n_layers = n_layers;
  return shape;
}

std::span<const ModelShape> model_shapes() { return kShapes; }

const ModelShape* find_shape(std::string_view name) {
  constexpr std::string_view kLlama = "llama-";
  if (name.starts_with(kLlama)) {
    const ModelShape* shape = find_shape(name.substr(kLlama.size()));
    return shape != nullptr && shape->architecture == "llama" ? shape : nullptr;
  }
  for (const ModelShape& shape : kShapes) {
    if (shape.name == name) return &shape;
  }
  return nullptr;
}

std::string shape_names() {
  std::string names;
  for (const ModelShape& shape : kShapes) names += (names.empty() ? "" : ", ") + std::string(shape.name);
  return names;
}

}  // namespace hearth
