// Models whose recurrent layers are short convolutions (LFM2): their keys, the tensors of every form that
// files have, and one message for every key or tensor that is missing, out of range or misshapen.
#include <cstdint>
#include <filesystem>
#include <functional>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_spec.h"

namespace hearth::test {
namespace {

constexpr int kModel = 32, kTaps = 3;
using Heads = std::vector<int32_t>;

/// Layer 1 is full, layers 0 and 2 are short convolutions.
TinyModel tiny_lfm2(const std::string& architecture = "lfm2") {
  TinyModel model(architecture, {.n_layers = 3, .d_model = kModel});
  model.key(architecture + ".shortconv.l_cache", kTaps)
      .array(architecture + ".attention.head_count_kv", Heads{0, 2, 0});
  for (const int layer : {0, 2}) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
      model.without_tensor(prefix + name + ".weight");
    model.random_tensor(prefix + "shortconv.in_proj.weight", {kModel, 3 * kModel}, 0.0, 0.4);
    model.random_tensor(prefix + "shortconv.out_proj.weight", {kModel, kModel}, 0.0, 0.4);
    model.random_tensor(prefix + "shortconv.conv.weight", {kTaps, kModel}, 0.0, 0.5);
  }
  for (const char* name : {"attn_q_norm", "attn_k_norm"})
    model.random_tensor(std::string("blk.1.") + name + ".weight", {8}, 1.0, 0.3);
  return model;
}

/// The sentence with which the model is refused, or an empty text.
std::string short_conv_refusal(const TinyModel& model) {
  const TempFolder folder;
  model.write(folder / "model.gguf");
  try {
    const ModelFile file = ModelFile::open(folder / "model.gguf");
    bind_weights(file, read_model_spec(file));
  } catch (const ModelFileError& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return {};
}

}  // namespace

TEST_CASE("short convolutions: layers without heads of keys are recurrent") {
  const ModelSpec spec = spec_of(tiny_lfm2());
  CHECK(spec.recurrent ==
        RecurrentShape{.n_taps = kTaps, .kind = RecurrentKind::kShortConv, .n_channels = kModel});
  CHECK(spec.layer(0).recurrent);
  CHECK_FALSE(spec.layer(1).recurrent);
  CHECK(spec.layer(2).recurrent);
  CHECK(spec.n_kv_heads == 2);
  CHECK(spec.recurrent.state_floats() == 0);
  CHECK(spec.recurrent.log_floats() == kModel);
}

TEST_CASE("short convolutions: the parts of the first projection and the taps have their roles") {
  const TempFolder folder;
  tiny_lfm2().write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  const ModelSpec spec = read_model_spec(file);
  const Weights weights = bind_weights(file, spec);
  const ShortConvWeights& layer = weights.layers[2].short_conv;
  const auto stored = [&](const char* name) {
    return reinterpret_cast<const float*>(file.find_tensor(name)->data);
  };
  const float* const in = stored("blk.2.shortconv.in_proj.weight");
  const auto first_of = [](const Linear& part) { return reinterpret_cast<const float*>(part.weight.data); };
  CHECK(first_of(layer.input_gate) == in);
  CHECK(first_of(layer.output_gate) == in + kModel * kModel);
  CHECK(first_of(layer.input) == in + 2 * kModel * kModel);
  CHECK(layer.input.weight.n_rows == kModel);
  const float* const taps = stored("blk.2.shortconv.conv.weight");
  for (int tap = 0; tap < kTaps; ++tap) {
    for (int channel = 0; channel < kModel; ++channel)
      REQUIRE(layer.taps[tap * kModel + channel] == taps[channel * kTaps + tap]);
  }
  CHECK(weights.layers[1].short_conv.taps == nullptr);
  CHECK(attention_bytes(weights.layers[2]) == 4 * kModel * kModel * sizeof(float));
}

TEST_CASE("short convolutions: the last norm may have the usual name") {
  TinyModel usual = tiny_lfm2(), own = tiny_lfm2();
  own.without_tensor("output_norm.weight").random_tensor("token_embd_norm.weight", {kModel}, 1.0, 0.3);
  CHECK(short_conv_refusal(usual).empty());
  CHECK(short_conv_refusal(own).empty());
  own.without_tensor("token_embd_norm.weight");
  CHECK_THAT(short_conv_refusal(own), ContainsSubstring("tensor \"token_embd_norm.weight\" is missing"));
}

TEST_CASE("short convolutions: every wrong key and tensor is refused by one sentence") {
  struct Case {
    const char* says;
    std::function<void(TinyModel&)> change;
  };
  const auto heads = [](Heads values) {
    return [=](TinyModel& model) { model.array("lfm2.attention.head_count_kv", values); };
  };
  const auto shaped = [](const char* name, std::vector<int64_t> shape) {
    return [=](TinyModel& model) { model.random_tensor(name, shape, 0.0, 0.4); };
  };
  const std::vector<Case> cases = {
      {"key \"lfm2.shortconv.l_cache\" is missing",
       [](TinyModel& model) { model.without_key("lfm2.shortconv.l_cache"); }},
      {"key \"lfm2.shortconv.l_cache\" is 1, expected a whole number from 2 to 8;",
       [](TinyModel& model) { model.key("lfm2.shortconv.l_cache", 1); }},
      {"key \"lfm2.shortconv.l_cache\" is 9, expected a whole number from 2 to 8;",
       [](TinyModel& model) { model.key("lfm2.shortconv.l_cache", 9); }},
      {"key \"lfm2.attention.head_count_kv\" is absent, expected an array with a number for each layer;",
       [](TinyModel& model) { model.without_key("lfm2.attention.head_count_kv"); }},
      {"key \"lfm2.attention.head_count_kv\" is not an array, expected an array with a number for",
       [](TinyModel& model) { model.key("lfm2.attention.head_count_kv", 2); }},
      {"key \"lfm2.attention.head_count_kv\" is an array of 2, expected one value for each of 3 layers;",
       heads({0, 2})},
      {"key \"lfm2.attention.head_count_kv\" is 0 for every layer, expected at least one of 3 layers to have",
       heads({0, 0, 0})},
      {"key \"lfm2.attention.head_count_kv\" is 3, expected a divisor of head_count, 4;", heads({0, 3, 0})},
      {"key \"lfm2.attention.head_count_kv\" is -1 in layer 1, expected 0 or more;", heads({0, -1, 0})},
      {"key \"lfm2.attention.causal\" is false, which does not run: attention of this architecture does not "
       "look ahead;",
       [](TinyModel& model) { model.key("lfm2.attention.causal", false); }},
      {"tensor \"blk.2.shortconv.conv.weight\" is [4, 32], expected [3, 32]",
       shaped("blk.2.shortconv.conv.weight", {4, kModel})},
      {"tensor \"blk.0.shortconv.in_proj.weight\" is [32, 64], expected [32, 96]",
       shaped("blk.0.shortconv.in_proj.weight", {kModel, 2 * kModel})},
      {"tensor \"blk.0.shortconv.out_proj.weight\" is [32, 31], expected [32, 32]",
       shaped("blk.0.shortconv.out_proj.weight", {kModel, kModel - 1})},
      {"tensor \"blk.0.shortconv.conv.weight\" is missing",
       [](TinyModel& model) { model.without_tensor("blk.0.shortconv.conv.weight"); }},
      {"tensor \"dense_2.weight\" is not a part of architecture lfm2",
       shaped("dense_2.weight", {kModel, kModel})},
  };
  for (const Case& bad : cases) {
    TinyModel model = tiny_lfm2();
    bad.change(model);
    INFO(bad.says);
    CHECK_THAT(short_conv_refusal(model), ContainsSubstring(bad.says));
  }
}

}  // namespace hearth::test
