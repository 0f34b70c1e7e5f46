// Heads of layers with and without a window, shared keys and values, and FFN widths of Gemma 4.
#include "engine/model/read_window_heads.h"

#include <algorithm>
#include <filesystem>

#include "engine/forward/kv_memory.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_spec.h"

namespace hearth::test {
namespace {

using Ints = std::vector<int32_t>;

/// Six layers, the third and the last without a window: 2 heads of 16 for keys, and 4 of 8 in the others.
TinyModel gemma4() {
  TinyShape shape;
  shape.n_layers = 6;
  shape.head_dim = 16;
  return TinyModel("gemma4", shape)
      .key("gemma4.attention.key_length_swa", 8)
      .key("gemma4.attention.sliding_window", 4)
      .array("gemma4.attention.head_count_kv", Ints{4, 4, 2, 4, 4, 2})
      .array("gemma4.attention.sliding_window_pattern", Ints{1, 1, 0, 1, 1, 0});
}

}  // namespace

TEST_CASE("window heads: sizes are those of the layer, and the widest sizes the buffers") {
  const ModelSpec spec = spec_of(gemma4());
  CHECK(spec.head_dim_of(0) == 8);
  CHECK(spec.head_dim_of(2) == 16);
  CHECK(spec.q_dim(1) == 32);
  CHECK(spec.q_dim(5) == 64);
  CHECK(spec.kv_dim(0) == 32);
  CHECK(spec.kv_dim(5) == 32);
  CHECK(spec.q_dim() == 64);
  CHECK(spec.kv_dim() == 32);
  CHECK(spec.rope.n_rot == 16);
  CHECK(spec.local_rope.n_rot == 8);
  CHECK(spec.local_rope.base == 10000.0);
  CHECK(spec.score_scale() == 1.0f);
  CHECK(spec.all_have_own_kv());
  CHECK(spec.has_equal_ffns());
}

TEST_CASE("window heads: the last layers read the keys of the last earlier layer of their kind") {
  const ModelSpec spec = spec_of(gemma4().key("gemma4.attention.shared_kv_layers", 3));
  std::vector<int> sources;
  for (const LayerSpec& layer : spec.layers) sources.push_back(layer.kv_source);
  CHECK(sources == std::vector<int>{-1, -1, -1, 1, 1, 2});
  // Keys and values of the two layers with a window have 32 numbers each, as those of the third layer have.
  const KvBlockCounts counts{.n_blocks = 5};
  CHECK(KvMemory::bytes_needed(spec, counts) == 3.0 * 5 * kKvBlockTokens * 2 * 32 * 2);
  CHECK(KvMemory::layer_bytes(spec, counts, 3) == 0);
}

TEST_CASE("window heads: FFNs may have different widths, without modes that skip neurons") {
  TinyModel model = gemma4().array("gemma4.feed_forward_length", Ints{48, 48, 48, 96, 96, 48});
  const ModelSpec spec = spec_of(model);
  CHECK(spec.d_ff == 96);
  CHECK(spec.d_ff_of(0) == 48);
  CHECK(spec.d_ff_of(4) == 96);
  CHECK_FALSE(spec.has_equal_ffns());
  CHECK_THAT(
      complaint(model.key("hearth.ffn_activation", "relu")),
      ContainsSubstring("\"gemma4.feed_forward_length\" is not the same for all layers, which does not "
                        "run: skipping zeros of the activation"));
}

TEST_CASE("window heads: keys that do not fit each other are refused") {
  const auto with = [](const char* key, int value) {
    return gemma4().key(std::string("gemma4.") + key, value);
  };
  const auto ints = [](const char* key, Ints values) {
    return gemma4().array(std::string("gemma4.") + key, std::move(values));
  };
  struct Case {
    const char* expected;
    TinyModel model;
  };
  const std::vector<Case> cases = {
      {"\"gemma4.attention.sliding_window_pattern\" is absent, expected for each layer whether",
       gemma4().without_key("gemma4.attention.sliding_window_pattern")},
      {"\"gemma4.attention.sliding_window_pattern\" is an array of 2, expected one value for each of 6",
       ints("attention.sliding_window_pattern", {1, 0})},
      {"\"gemma4.attention.head_count_kv\" is 3 in layer 1, expected a divisor of head_count, 4",
       ints("attention.head_count_kv", {4, 3, 2, 4, 4, 2})},
      {"\"gemma4.attention.head_count_kv\" is -1 in layer 0, expected a divisor",
       ints("attention.head_count_kv", {-1, 4, 2, 4, 4, 2})},
      {"\"gemma4.attention.head_count_kv\" is an array of 1, expected one value for each of 6 layers",
       ints("attention.head_count_kv", {4})},
      {"\"gemma4.attention.key_length_swa\" is 7, expected an even number",
       with("attention.key_length_swa", 7)},
      {"\"gemma4.attention.value_length_swa\" is 16, expected the length of a key, 8",
       with("attention.value_length_swa", 16)},
      {"\"gemma4.attention.sliding_window\" is 0, expected a whole number from 1",
       with("attention.sliding_window", 0)},
      {"\"gemma4.attention.shared_kv_layers\" is 6, expected a whole number from 0 to 5",
       with("attention.shared_kv_layers", 6)},
      {"\"gemma4.attention.shared_kv_layers\" is 4, expected a number that leaves layer 2, which has no "
       "window",
       with("attention.shared_kv_layers", 4)},
      {"\"gemma4.attention.head_count_kv\" is 2 in layer 3, expected 4 as in layer 1, whose keys it reads",
       ints("attention.head_count_kv", {4, 4, 2, 2, 4, 2}).key("gemma4.attention.shared_kv_layers", 3)},
      {"\"gemma4.feed_forward_length\" is 0 in layer 5, expected a number from 1",
       ints("feed_forward_length", {48, 48, 48, 48, 48, 0})},
      {"\"gemma4.rope.dimension_count_swa\" is 7, expected an even number",
       with("rope.dimension_count_swa", 7)},
  };
  for (const Case& one : cases) CHECK_THAT(complaint(one.model), ContainsSubstring(one.expected));
}

TEST_CASE("window heads: a GPU may compute models with shared keys and with experts beside FFNs") {
  const auto kind = [](const char* name) {
    const auto path = std::filesystem::path(testing::source_dir()) / "tests/data/arch" / name;
    return std::string(read_model_spec(ModelFile::open(path)).cpu_only_kind());
  };
  CHECK(kind("gemma4.gguf").empty());
  CHECK(kind("gemma4-e2b.gguf").empty());
  CHECK(kind("gemma4-moe.gguf").empty());
  CHECK(kind("gemma3n.gguf").empty());
  CHECK(kind("bert.gguf") == "an encoder");
}

TEST_CASE("window heads: tensors have the sizes of their layer") {
  const auto bound = [](const char* name) {
    const auto path = std::filesystem::path(testing::source_dir()) / "tests/data/arch" / name;
    const ModelFile file = ModelFile::open(path);
    const ModelSpec spec = read_model_spec(file);
    const Weights weights = bind_weights(file, spec);
    std::vector<int64_t> rows;
    for (const LayerWeights& layer : weights.layers) {
      for (const Linear* one : {&layer.q, &layer.k, &layer.v, &layer.up}) rows.push_back(one->weight.n_rows);
    }
    return rows;
  };
  CHECK(bound("gemma4.gguf") == std::vector<int64_t>{64, 32, 32, 48, 64, 32, 32, 48, 128, 32, 0, 48,
                                                     64, 32, 32, 48, 64, 32, 32, 48, 128, 32, 0, 48});
  // The last four layers of this file have keys and values that are not read.
  const std::vector<int64_t> shared = bound("gemma4-e2b.gguf");
  CHECK(std::ranges::equal(std::span(shared).last(8), std::vector<int64_t>{64, 0, 0, 96, 128, 0, 0, 96}));
}

}  // namespace hearth::test
