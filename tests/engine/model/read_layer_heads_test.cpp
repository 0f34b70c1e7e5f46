// Heads of layers that have different numbers of them, and rotary embeddings of layers with a window.
#include "engine/model/read_layer_heads.h"

#include "engine/model/model_spec.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_spec.h"

namespace hearth::test {
namespace {

using Ints = std::vector<int32_t>;

/// Five layers, the first and the fifth without a window.
TinyModel laguna() {
  TinyShape shape;
  shape.n_layers = 5;
  return TinyModel("laguna", shape)
      .key("laguna.attention.key_length", 8)
      .key("laguna.attention.sliding_window", 4)
      .array("laguna.attention.head_count", Ints{4, 6, 6, 6, 4});
}

TinyModel step35() {
  TinyShape shape;
  shape.n_layers = 2;
  return TinyModel("step35", shape)
      .key("step35.attention.key_length", 8)
      .key("step35.attention.sliding_window", 4)
      .array("step35.attention.sliding_window_pattern", Ints{0, 1})
      .array("step35.attention.head_count", Ints{4, 6})
      .array("step35.attention.head_count_kv", Ints{4, 3});
}

}  // namespace

TEST_CASE("layer heads: sizes are those of the layer, and the most heads size the buffers") {
  const ModelSpec spec = spec_of(laguna());
  CHECK(spec.n_heads == 6);
  CHECK(spec.heads_of(0) == 4);
  CHECK(spec.heads_of(1) == 6);
  CHECK(spec.q_dim(0) == 32);
  CHECK(spec.q_dim(3) == 48);
  CHECK(spec.q_dim() == 48);
  CHECK(spec.attended_dim(4) == 32);
  CHECK(spec.kv_heads_of(0) == 2);
  CHECK(spec.kv_dim(1) == 16);
  CHECK(spec.layer(0).window == 0);
  CHECK(spec.layer(1).window == 4);
  CHECK(spec.layer(4).window == 0);
}

TEST_CASE("layer heads: one number is that of all layers, and keys may differ too") {
  const ModelSpec same = spec_of(laguna().key("laguna.attention.head_count", 8));
  CHECK(same.n_heads == 8);
  CHECK(same.heads_of(4) == 8);
  const ModelSpec spec = spec_of(step35());
  CHECK(spec.kv_heads_of(0) == 4);
  CHECK(spec.kv_heads_of(1) == 3);
  CHECK(spec.n_kv_heads == 4);
  CHECK(spec.kv_dim() == 32);
  TinyModel alone = step35();
  alone.without_key("step35.attention.head_count_kv");
  CHECK(spec_of(alone).kv_heads_of(1) == 6);
}

TEST_CASE("layer heads: numbers that do not fit are refused") {
  CHECK_THAT(complaint(laguna().array("laguna.attention.head_count", Ints{4, 6, 5, 6, 4})),
             ContainsSubstring("head_count_kv\" is 2 in layer 2") &&
                 ContainsSubstring("a divisor of the layer's heads of queries, 5"));
  CHECK_THAT(complaint(laguna().array("laguna.attention.head_count", Ints{4, 0, 6, 6, 4})),
             ContainsSubstring("head_count\" is 0 in layer 1") && ContainsSubstring("from 1 to"));
  CHECK_THAT(complaint(laguna().array("laguna.attention.head_count", Ints{4, 6})),
             ContainsSubstring("head_count"));
  CHECK_THAT(complaint(TinyModel("llama").array("llama.attention.head_count", Ints{4, 4})),
             ContainsSubstring("head_count"));
}

TEST_CASE("layer heads: layers with a window have a rotary embedding of their own") {
  const ModelSpec spec = spec_of(laguna()
                                     .key("laguna.rope.dimension_count", 4)
                                     .key("laguna.rope.dimension_count_swa", 6)
                                     .key("laguna.rope.freq_base_swa", 500.0f));
  CHECK(spec.rope.n_rot == 4);
  CHECK(spec.local_rope.n_rot == 6);
  CHECK(spec.local_rope.base == 500.0);
  CHECK(spec_of(laguna().key("laguna.rope.dimension_count", 4)).local_rope.n_rot == 4);
  CHECK_THAT(complaint(laguna().key("laguna.rope.dimension_count_swa", 10)),
             ContainsSubstring("dimension_count_swa\" is 10"));
  // Step 3.5 rotates half of each head in layers without a window, which no key says.
  CHECK(spec_of(step35()).rope.n_rot == 4);
  CHECK(spec_of(step35()).local_rope.n_rot == 8);
}

TEST_CASE("layer heads: a file's magnitude of YaRN replaces the temperature") {
  const auto yarn = [](float magnitude) {
    TinyModel model = laguna();
    model.key("laguna.rope.scaling.type", "yarn").key("laguna.rope.scaling.factor", 4.0f);
    if (magnitude > 0) model.key("laguna.rope.scaling.yarn_attn_factor", magnitude);
    return spec_of(model).rope;
  };
  CHECK(yarn(0).yarn_tempers);
  CHECK(yarn(0).attn_factor == 1.0);
  CHECK_FALSE(yarn(1.25f).yarn_tempers);
  CHECK(yarn(1.25f).attn_factor == 1.25);
}

}  // namespace hearth::test
