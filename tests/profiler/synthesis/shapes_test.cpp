// The table of shapes: sizes fit together, and parameter counts are near those in the names.
#include "profiler/synthesis/shapes.h"

#include <set>

#include "profiler/plan/planned_model.h"
#include "profiler/synthesis/synth_model.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

TEST_CASE("every shape's sizes fit together") {
  std::set<std::string_view> names;
  for (const ModelShape& shape : model_shapes()) {
    CAPTURE(shape.name);
    CHECK(names.insert(shape.name).second);
    CHECK(find_shape(shape.name) == &shape);
    CHECK(shape_names().find(shape.name) != std::string::npos);
    CHECK((shape.d_head > 0 || shape.d_model % shape.n_heads == 0));
    CHECK(shape.head_dim() % 32 == 0);
    CHECK(shape.n_heads % shape.n_kv_heads == 0);
    CHECK(shape.d_model % 64 == 0);
    CHECK(shape.d_ff % 32 == 0);
    CHECK(shape.predictor_rank % 32 == 0);
    CHECK((shape.predictor_rank == 0 || shape.predictor_rank >= 128));
    CHECK(shape.has_experts() == (shape.d_expert > 0));
    CHECK(shape.d_expert % 32 == 0);
    CHECK(shape.n_used <= shape.n_experts);
    CHECK(shape.n_vocab > 0);
    CHECK(shape.context_tokens > 0);
    CHECK(shape.n_layers % 2 == 0);  // two kinds of layers alternate
  }
  CHECK(find_shape("8b") == nullptr);
  CHECK(find_shape("") == nullptr);
}

TEST_CASE("shapes have as many parameters as their names promise") {
  struct Case {
    const char* name;
    double billions;  // of the real model
  };
  const Case cases[] = {{"1b", 1.10},
                        {"7b", 6.74},
                        {"13b", 13.02},
                        {"70b", 68.98},
                        {"bamboo-7b", 7.24},
                        {"falcon-40b", 41.8},
                        {"opt-6.7b", 6.66},
                        {"opt-30b", 29.97},
                        {"opt-66b", 65.7},
                        {"opt-175b", 174.6},
                        {"phi3-mini", 3.82},
                        {"gemma3-4b", 3.88},
                        {"qwen3-30b-a3b", 30.53},
                        {"mixtral-8x7b", 46.7},
                        {"smallthinker-21b-a3b", 21.5},
                        {"qwen3.5-4b", 4.21},
                        {"qwen3.6-27b", 26.9},
                        {"qwen3.6-35b-a3b", 34.7},
                        {"qwen3-coder-next", 79.7},
                        {"gemma-4-e4b", 7.52},
                        {"gemma-4-26b-a4b", 25.2},
                        {"nemotron-3-nano", 31.6}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    REQUIRE(find_shape(c.name) != nullptr);
    const SynthSizes sizes = synth_sizes({.shape = *find_shape(c.name), .dtype = DType::kF32});
    CHECK(static_cast<double>(sizes.plain_bytes) / 4e9 == Approx(c.billions).epsilon(0.02));
  }
  // 19.1 of the 20.9 billion weights, and 114.7 of 116.8, are in experts and have 4.25 bits each.
  const SynthSizes oss = synth_sizes({.shape = *find_shape("gpt-oss-20b"), .dtype = DType::kF16});
  CHECK(static_cast<double>(oss.plain_bytes) == Approx(19.1e9 * 17 / 32 + 1.8e9 * 2).epsilon(0.02));
  const SynthSizes large = synth_sizes({.shape = *find_shape("gpt-oss-120b"), .dtype = DType::kF16});
  CHECK(static_cast<double>(large.plain_bytes) == Approx(114.7e9 * 17 / 32 + 2.1e9 * 2).epsilon(0.02));
  // Plans count the same weights.
  for (const auto& [name, billions] : {std::pair{"qwen3.5-4b", 4.21},
                                       {"qwen3.6-27b", 26.9},
                                       {"qwen3.6-35b-a3b", 34.7},
                                       {"qwen3-coder-next", 79.7},
                                       {"nemotron-3-nano", 31.6}}) {
    CAPTURE(name);
    const PlannedModel planned = model_of_shape(*find_shape(name), DType::kQ8_0, "");
    CHECK(planned.weight_bytes() * 32 / 34 == Approx(billions * 1e9).epsilon(0.02));
  }
  // 106 billion for GLM-4.5-Air, without the layer that predicts a further token.
  CHECK(model_of_shape(*find_shape("glm-4.5-air"), DType::kQ8_0, "").weight_bytes() * 32 / 34 ==
        Approx(106e9).epsilon(0.02));
}

}  // namespace
}  // namespace hearth::test
