// The table of shapes. Their sizes come from the models' own configurations.
#include "profiler/synthesis/shapes.h"

#include <array>

namespace hearth {
namespace {

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
