// The table of shapes. Sizes are those of the models' own configurations.
#include "profiler/synthesis/shapes.h"

#include <array>

namespace hearth {
namespace {

// The rank is a quarter of d_model: PowerInfer's predictors for ReluLLaMA-7B have 1,280 to 2,048 in the later
// layers and fewer before. The tiny ones are no real models, but small enough for tests.
constexpr std::array<ModelShape, 14> kShapes = {{
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
}};

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
