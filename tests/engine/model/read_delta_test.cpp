// Reading the facts of models with gated delta nets: good files of each converter, and one message for every
// key that is missing, out of range or inconsistent with another.
#include "engine/model/read_delta.h"

#include <cstdint>
#include <functional>

#include "tests/support/catch.h"
#include "tests/support/delta_model.h"
#include "tests/support/tiny_spec.h"

namespace hearth::test {
namespace {

/// The one line with which the model is refused, without the file's name; empty if it is read.
std::string delta_complaint(const TinyModel& model) {
  const std::string text = complaint(model);
  if (text.empty()) return text;
  const size_t at = text.find("model.gguf: ");
  REQUIRE(at != std::string::npos);
  return text.substr(at + 12);
}

std::vector<bool> recurrent_layers(const ModelSpec& spec) {
  std::vector<bool> recurrent;
  for (const LayerSpec& layer : spec.layers) recurrent.push_back(layer.recurrent);
  return recurrent;
}

using Layers = std::vector<bool>;

}  // namespace

TEST_CASE("delta spec: keys become facts") {
  const ModelSpec spec = spec_of(tiny_delta("qwen35"));
  CHECK(spec.arch.name == "qwen35");
  REQUIRE(spec.recurrent);
  CHECK(spec.recurrent.n_k_heads == 2);
  CHECK(spec.recurrent.n_v_heads == 6);
  CHECK(spec.recurrent.head_dim == 8);
  CHECK(spec.recurrent.n_taps == 4);
  CHECK(spec.recurrent.tiled);
  CHECK(spec.recurrent.key_dim() == 16);
  CHECK(spec.recurrent.value_dim() == 48);
  CHECK(spec.recurrent.conv_dim() == 80);
  CHECK(spec.d_ff == 48);
  CHECK(spec.rope.n_rot == 8);
  CHECK(spec.head_dim == 16);
  CHECK(spec.q_dim() == 64);
  CHECK(spec.projected_q_dim() == 128);
  CHECK(spec.attended_dim() == 64);
  CHECK_FALSE(spec.has_experts());
  CHECK(recurrent_layers(spec) == Layers{true, true, true, false, true});
  CHECK(spec.layer(3).turns);
  CHECK_FALSE(spec.layer(4).turns);
  TinyModel plain("qwen3");
  CHECK_FALSE(spec_of(plain).recurrent);
  CHECK_FALSE(spec_of(plain).layer(0).recurrent);
}

TEST_CASE(
    "delta spec: Kimi Linear's states have decays for each row, and its attention no rotary embedding") {
  const auto kimi = [] {
    TinyShape shape;
    shape.n_layers = 3;
    return TinyModel("kimi-linear", shape)
        .array("kimi-linear.attention.head_count_kv", std::vector<int32_t>{0, 1, 0})
        .key("kimi-linear.ssm.conv_kernel", 4)
        .key("kimi-linear.kda.head_dim", 8)
        .key("kimi-linear.attention.kv_lora_rank", 24)
        .key("kimi-linear.rope.dimension_count", 6)
        .key("kimi-linear.attention.key_length", 30)
        .key("kimi-linear.attention.value_length", 72)
        .key("kimi-linear.attention.key_length_mla", 18)
        .key("kimi-linear.attention.value_length_mla", 16);
  };
  const ModelSpec spec = spec_of(kimi());
  CHECK(recurrent_layers(spec) == Layers{true, false, true});
  CHECK(spec.recurrent.kind == RecurrentKind::kGatedDelta);
  CHECK(spec.recurrent.row_decays);
  CHECK(spec.recurrent.n_v_heads == 4);
  CHECK(spec.recurrent.decay_dim() == 32);
  CHECK(spec.recurrent.conv_dim() == 96);
  CHECK(spec.latent.d_nope == 12);
  CHECK_FALSE(spec.layer(1).turns);
  CHECK(spec.cpu_only_kind().empty());
  CHECK_THAT(delta_complaint(kimi().without_key("kimi-linear.kda.head_dim")),
             ContainsSubstring("kda.head_dim") && ContainsSubstring("is missing"));
  CHECK_THAT(delta_complaint(kimi().key("kimi-linear.kda.head_dim", 0)), ContainsSubstring("kda.head_dim"));
  CHECK_THAT(delta_complaint(kimi().key("kimi-linear.ssm.conv_kernel", 9)), ContainsSubstring("conv_kernel"));
  CHECK_THAT(
      delta_complaint(kimi().array("kimi-linear.attention.head_count_kv", std::vector<int32_t>{0, 0, 0})),
      ContainsSubstring("at least one of 3 layers"));
}

TEST_CASE("delta spec: neighboring value heads belong to neighboring key heads or to the same one") {
  RecurrentShape delta{.n_k_heads = 2, .n_v_heads = 6, .head_dim = 8, .n_taps = 4, .tiled = true};
  const auto key_heads = [&] {
    std::vector<int> heads;
    for (int h = 0; h < delta.n_v_heads; ++h) heads.push_back(delta.key_head(h));
    return heads;
  };
  CHECK(key_heads() == std::vector{0, 1, 0, 1, 0, 1});
  delta.tiled = false;
  CHECK(key_heads() == std::vector{0, 0, 0, 1, 1, 1});
}

TEST_CASE(
    "delta spec: the order of value heads is the architecture's, unless a key or tensor says otherwise") {
  const auto tiled = [](TinyModel model) { return spec_of(model).recurrent.tiled; };
  CHECK(tiled(tiny_delta("qwen35moe")));
  CHECK_FALSE(tiled(tiny_delta("qwen3next")));
  CHECK_FALSE(tiled(tiny_delta("qwen35").key("qwen35.ssm.v_head_reordered", false)));
  CHECK(tiled(tiny_delta("qwen35").key("qwen35.ssm.v_head_reordered", true)));
  // Ollama imports qwen3next as qwen35moe.
  const auto imported = [] {
    TinyModel model = tiny_delta("qwen35moe");
    for (const char* layer : {"blk.0.", "blk.1.", "blk.2.", "blk.4."}) {
      model.without_tensor(std::string(layer) + "ssm_beta.weight")
          .without_tensor(std::string(layer) + "ssm_alpha.weight")
          .random_tensor(std::string(layer) + "ssm_ba.weight", {32, 12}, 0, 1);
    }
    return model;
  };
  CHECK_FALSE(tiled(imported()));
  CHECK(delta_complaint(imported().key("qwen35moe.ssm.v_head_reordered", true)) ==
        "key \"qwen35moe.ssm.v_head_reordered\" is true, expected false: tensors ssm_ba and ssm_in hold the "
        "value heads of each key head together; the file is damaged or made for another program");
}

TEST_CASE("delta spec: layers are recurrent by an array, one value, or an interval") {
  const std::string array = "qwen35.attention.recurrent_layers", interval = "qwen35.full_attention_interval";
  const auto by_interval = [&] { return tiny_delta("qwen35").without_key(array); };
  CHECK(recurrent_layers(spec_of(by_interval())) == Layers{true, true, true, false, true});
  CHECK(recurrent_layers(spec_of(by_interval().without_key(interval))) ==
        Layers{true, true, true, false, true});
  CHECK(recurrent_layers(spec_of(by_interval().key(interval, 2))) == Layers{true, false, true, false, true});
  CHECK(recurrent_layers(spec_of(by_interval().key(interval, 1))) == Layers(5, false));
  // The array wins over the interval.
  CHECK(recurrent_layers(spec_of(
            tiny_delta("qwen35").array(array, Layers{false, true, true, true, false}).key(interval, 2))) ==
        Layers{false, true, true, true, false});
  CHECK(recurrent_layers(spec_of(tiny_delta("qwen35").key(array, false))) == Layers(5, false));
}

TEST_CASE("delta spec: layers that predict later tokens are counted by arrays, and not run") {
  TinyModel model = tiny_delta("qwen35moe");
  model.key("qwen35moe.block_count", 6).key("qwen35moe.nextn_predict_layers", 1);
  CHECK_THAT(delta_complaint(model), ContainsSubstring("one value for each of 6 layers"));
  model.array("qwen35moe.attention.recurrent_layers", Layers{true, true, true, false, true, false})
      .array("qwen35moe.attention.head_count_kv", std::vector<int32_t>{0, 0, 0, 2, 0, 4})
      .array("qwen35moe.expert_used_count", std::vector<int32_t>{2, 2, 2, 2, 2, 0})
      .array("qwen35moe.expert_feed_forward_length", std::vector<int32_t>{20, 20, 20, 20, 20, 0});
  const ModelSpec spec = spec_of(model);
  CHECK(spec.n_layers == 5);
  CHECK(spec.n_unused_layers == 1);
  CHECK(spec.n_kv_heads == 2);
  CHECK(spec.mixture.n_used == 2);
  CHECK(spec.mixture.d_expert == 20);
  CHECK(recurrent_layers(spec) == Layers{true, true, true, false, true});
}

TEST_CASE("delta spec: a file of only the layer that predicts later tokens is no model") {
  TinyModel model = tiny_delta("qwen35");
  model.key("qwen35.block_count", 6)
      .key("qwen35.nextn_predict_layers", 1)
      .without_tensor("blk.0.attn_norm.weight")
      .random_tensor("blk.5.nextn.eh_proj.weight", {64, 32}, 0, 1);
  CHECK(delta_complaint(model) ==
        "it has a layer that predicts later tokens (tensor \"blk.5.nextn.eh_proj.weight\") without the 5 "
        "layers before it, expected a whole model; give the model's own GGUF file");
}

TEST_CASE("delta spec: without dense layers, the width of an FFN may be absent") {
  const ModelSpec moe = spec_of(tiny_delta("qwen35moe"));
  CHECK(moe.d_ff == 20);
  CHECK(moe.mixture.d_shared == 24);
  CHECK(moe.widest_ffn() == 24);
  CHECK(moe.mixture.renormalize);
  CHECK(spec_of(tiny_delta("qwen35moe").key("qwen35moe.feed_forward_length", 96)).d_ff == 96);
  CHECK_THAT(delta_complaint(tiny_delta("qwen35").without_key("qwen35.feed_forward_length")),
             ContainsSubstring("\"qwen35.feed_forward_length\" is missing"));
  CHECK_THAT(delta_complaint(tiny_delta("qwen35moe").key("qwen35moe.leading_dense_block_count", 1)),
             ContainsSubstring("\"qwen35moe.feed_forward_length\" is missing"));
  // Widths of experts follow from tensors where the keys are absent.
  TinyModel keyless = tiny_delta("qwen35moe");
  keyless.without_key("qwen35moe.expert_feed_forward_length")
      .without_key("qwen35moe.expert_shared_feed_forward_length");
  CHECK(spec_of(keyless).mixture.d_expert == 20);
  CHECK(spec_of(keyless).mixture.d_shared == 24);
  for (int i = 0; i < TinyDelta::kLayers; ++i)
    keyless.without_tensor("blk." + std::to_string(i) + ".ffn_up_exps.weight");
  CHECK_THAT(delta_complaint(keyless),
             ContainsSubstring("\"qwen35moe.expert_feed_forward_length\" is missing"));
}

TEST_CASE("delta spec: keys that mean nothing for text are ignored") {
  TinyModel model = tiny_delta("qwen35");
  model.key("qwen35.vision.block_count", 12)
      .key("qwen35.rope.mrope_interleaved", true)
      .key("qwen35.norm_top_k_prob", true)
      .array("qwen35.mrope_sections", std::vector<int32_t>{2, 1, 1})
      .array("qwen35.rope.dimension_sections", std::vector<int32_t>{2, 1, 1});
  CHECK(delta_complaint(model).empty());
  CHECK(delta_complaint(tiny_delta("qwen35").without_key("qwen35.rope.dimension_sections")).empty());
}

TEST_CASE("delta spec: every wrong key is refused by one sentence") {
  struct Case {
    const char* says;  // the refusal begins with it, after key "qwen35moe.
    std::function<void(TinyModel&)> change;
  };
  const auto number = [](const char* key, int64_t value) {
    return [=](TinyModel& model) { model.key("qwen35moe." + std::string(key), value); };
  };
  const auto ints = [](const char* key, std::vector<int32_t> values) {
    return [=](TinyModel& model) { model.array("qwen35moe." + std::string(key), values); };
  };
  const auto bools = [](std::vector<bool> values) {
    return [=](TinyModel& model) { model.array("qwen35moe.attention.recurrent_layers", values); };
  };
  const auto interval = [](int value) {
    return [=](TinyModel& model) {
      model.without_key("qwen35moe.attention.recurrent_layers")
          .key("qwen35moe.full_attention_interval", value);
    };
  };
  const std::vector<Case> cases = {
      {"ssm.conv_kernel\" is 1, expected a whole number from 2 to 8;", number("ssm.conv_kernel", 1)},
      {"ssm.conv_kernel\" is 9, expected a whole number from 2 to 8;", number("ssm.conv_kernel", 9)},
      {"ssm.state_size\" is 0, expected a whole number from 1 to 1024;", number("ssm.state_size", 0)},
      {"ssm.state_size\" is 1025, expected", number("ssm.state_size", 1025)},
      {"ssm.group_count\" is 0, expected a whole number from 1 to 4096;", number("ssm.group_count", 0)},
      {"ssm.time_step_rank\" is 0, expected", number("ssm.time_step_rank", 0)},
      {"ssm.time_step_rank\" is -1, expected", number("ssm.time_step_rank", -1)},
      {"ssm.time_step_rank\" is 5, expected a multiple of ssm.group_count, 2;",
       number("ssm.time_step_rank", 5)},
      {"ssm.inner_size\" is 0, expected", number("ssm.inner_size", 0)},
      {"ssm.inner_size\" is 47, expected ssm.time_step_rank times ssm.state_size, 48;",
       number("ssm.inner_size", 47)},
      {"attention.recurrent_layers\" is an array of 4, expected one value for each of 5 layers;",
       bools({true, true, true, false})},
      {"attention.recurrent_layers\" is true for every layer, expected at least one of 5 layers to be full;",
       bools({true, true, true, true, true})},
      {"full_attention_interval\" is 0, expected a whole number from 1 to 1024;", interval(0)},
      {"full_attention_interval\" is 6, expected at least one of 5 layers to be full;", interval(6)},
      {"rope.dimension_sections\" is an array of 0, expected 1 to 4 numbers;",
       ints("rope.dimension_sections", {})},
      {"rope.dimension_sections\" is an array of 5, expected 1 to 4 numbers;",
       ints("rope.dimension_sections", {1, 1, 1, 0, 0})},
      {"rope.dimension_sections\" is an array with -1, expected numbers from 0 to 4;",
       ints("rope.dimension_sections", {2, -1, 1, 0})},
      {"rope.dimension_sections\" is an array with a sum of 5, expected at most the 4 pairs",
       ints("rope.dimension_sections", {2, 2, 1, 0})},
      {"attention.head_count_kv\" is an array of 3, expected one value for each of 5 layers;",
       ints("attention.head_count_kv", {0, 0, 2})},
      {"attention.head_count_kv\" is 2 in layer 0, expected 0, because the layer keeps a state",
       ints("attention.head_count_kv", {2, 2, 2, 2, 2})},
      {"attention.head_count_kv\" is 0 in layer 3, expected a number from 1 to 4;",
       ints("attention.head_count_kv", {0, 0, 0, 0, 0})},
      {"attention.head_count_kv\" is 5 in layer 3, expected a number from 1 to 4;",
       ints("attention.head_count_kv", {0, 0, 0, 5, 0})},
      {"attention.head_count_kv\" is 3, expected a divisor of head_count, 4;",
       ints("attention.head_count_kv", {0, 0, 0, 3, 0})},
      {"expert_used_count\" is 2 in layer 0 and 1 in layer 2, which does not run: all layers need",
       ints("expert_used_count", {2, 2, 1, 2, 2})},
      {"expert_used_count\" is 5, expected a whole number from 1 to 4;",
       ints("expert_used_count", {5, 5, 5, 5, 5})},
  };
  for (const Case& bad : cases) {
    TinyModel model = tiny_delta("qwen35moe");
    bad.change(model);
    INFO(bad.says);
    const std::string said = delta_complaint(model);
    CHECK_THAT(said, ContainsSubstring(std::string("key \"qwen35moe.") + bad.says));
  }
  for (const char* key : {"conv_kernel", "state_size", "group_count", "time_step_rank", "inner_size"}) {
    const std::string name = std::string("qwen35moe.ssm.") + key;
    CHECK_THAT(delta_complaint(tiny_delta("qwen35moe").without_key(name)),
               ContainsSubstring("\"" + name + "\" is missing"));
  }
  const TinyModel two_layers = tiny_delta("qwen35")
                                   .key("qwen35.block_count", 2)
                                   .without_key("qwen35.attention.recurrent_layers")
                                   .without_key("qwen35.full_attention_interval");
  CHECK_THAT(
      delta_complaint(two_layers),
      ContainsSubstring("\"qwen35.full_attention_interval\" is absent, which means 4, expected at least "
                        "one of 2 layers to be full;"));
  const TinyModel different =
      tiny_delta("qwen35")
          .array("qwen35.attention.recurrent_layers", Layers{true, false, true, false, true})
          .array("qwen35.attention.head_count_kv", std::vector<int32_t>{0, 2, 0, 4, 0});
  CHECK_THAT(delta_complaint(different),
             ContainsSubstring("is 4 in layer 3, expected 2 as in the layers before;"));
}

}  // namespace hearth::test
