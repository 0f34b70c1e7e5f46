// Reading models with layers of Mamba-2: good files become facts and weights, and there is one message for
// every key that is missing, out of range or inconsistent with another, and for every tensor that does not
// fit.
#include "engine/model/read_mamba.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/weights.h"
#include "tests/support/catch.h"
#include "tests/support/mamba_model.h"
#include "tests/support/tiny_spec.h"

namespace hearth::test {
namespace {

using LayerNumbers = std::vector<int32_t>;

std::string text_of_kinds(const ModelSpec& spec) {
  std::string text;
  for (int i = 0; i < spec.n_layers; ++i) {
    const LayerSpec layer = spec.layer(i);
    text += layer.recurrent ? 'M' : spec.attends(i) ? 'A' : '-';
    text += layer.experts ? 'E' : layer.has_ffn ? 'F' : '-';
  }
  return text;
}

/// The error of loading the model's weights; empty if there is none.
std::string mamba_refusal(const TinyModel& model) {
  const TempFolder folder;
  model.write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  try {
    bind_weights(file, read_model_spec(file));
  } catch (const ModelFileError& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("mamba spec: a file of Mamba-2 alone has no heads of attention, and no FFNs") {
  TinyModel model("mamba2");
  model.key("mamba2.attention.head_count", 0)
      .key("mamba2.attention.head_count_kv", 0)
      .key("mamba2.feed_forward_length", 0)
      .key("mamba2.ssm.conv_kernel", 4)
      .key("mamba2.ssm.state_size", 8)
      .key("mamba2.ssm.group_count", 2)
      .key("mamba2.ssm.time_step_rank", 4)
      .key("mamba2.ssm.inner_size", 64);
  const ModelSpec spec = spec_of(model);
  CHECK(text_of_kinds(spec) == "M-M-");
  CHECK(spec.recurrent.head_dim == 16);
  CHECK_FALSE(spec.attends(0));
  CHECK(spec.d_ff == 0);
  CHECK_THAT(complaint(model.key("mamba2.ssm.inner_size", 66)), ContainsSubstring("inner_size"));
}

TEST_CASE("mamba spec: keys become facts") {
  const ModelSpec spec = spec_of(tiny_mamba("nemotron_h"));
  REQUIRE(spec.recurrent);
  CHECK(spec.recurrent.kind == RecurrentKind::kMamba2);
  CHECK(spec.recurrent.n_k_heads == TinyMamba::kGroups);
  CHECK(spec.recurrent.n_v_heads == TinyMamba::kInnerHeads);
  CHECK(spec.recurrent.head_dim == TinyMamba::kInnerHead);
  CHECK(spec.recurrent.n_rows() == TinyMamba::kState);
  CHECK(spec.recurrent.conv_dim() == TinyMamba::kChannels);
  CHECK(spec.recurrent.state_floats() == int64_t{16} * TinyMamba::kState * TinyMamba::kInnerHeads);
  CHECK(text_of_kinds(spec) == "M--FA-M-");
  CHECK(spec.d_ff == TinyMamba::kFf);
  CHECK(spec.n_kv_heads == TinyMamba::kKvHeads);
  CHECK_FALSE(spec.layer(2).turns);
  // Zeros are not skipped neuron by neuron, because some layers have none.
  CHECK_FALSE(spec.has_zero_neurons());
  CHECK(spec.cpu_only_kind().empty());

  const ModelSpec experts = spec_of(tiny_mamba("nemotron_h_moe"));
  CHECK(text_of_kinds(experts) == "M--EA-M-");
  CHECK(experts.mixture.score == RouterScore::kSigmoid);
  CHECK(experts.mixture.renormalize);
  CHECK(experts.mixture.scale == 2.5f);
  CHECK(experts.d_ff == TinyMamba::kExpert);
  CHECK(experts.mixture.d_latent == 0);
  CHECK(experts.cpu_only_kind().empty());
  const ModelSpec latent =
      spec_of(tiny_mamba("nemotron_h_moe").key("nemotron_h_moe.moe_latent_size", uint32_t{16}));
  CHECK(latent.mixture.d_latent == 16);
  CHECK(latent.cpu_only_kind() == "a mixture with latent experts");
  CHECK_THAT(complaint(tiny_mamba("nemotron_h_moe").key("nemotron_h_moe.moe_latent_size", uint32_t{9999})),
             ContainsSubstring("moe_latent_size"));

  const ModelSpec granite = spec_of(tiny_mamba("granitehybrid"));
  CHECK(text_of_kinds(granite) == "MFAF");
  CHECK_FALSE(granite.layer(1).turns);
  CHECK(spec_of(tiny_mamba("granitehybrid").without_key("granitehybrid.rope.scaling.finetuned"))
            .layer(1)
            .turns);
}

TEST_CASE(
    "mamba spec: norms have one epsilon under either name, and keys of a rotary embedding say nothing") {
  const std::string rms = "nemotron_h.attention.layer_norm_rms_epsilon";
  TinyModel model = tiny_mamba("nemotron_h");
  model.without_key(rms).key("nemotron_h.attention.layer_norm_epsilon", 3e-5f);
  CHECK(spec_of(model).norm_eps == 3e-5f);
  CHECK(spec_of(model.key(rms, 2e-5f)).norm_eps == 2e-5f);
  CHECK(spec_of(model.key("nemotron_h.rope.dimension_count", 84)).n_layers == 4);
}

TEST_CASE("mamba spec: recurrence and attention may be beside each other") {
  TinyModel model("falcon-h1");
  for (const auto& [key, value] : std::vector<std::pair<std::string, int>>{{"ssm.conv_kernel", 4},
                                                                           {"ssm.state_size", 8},
                                                                           {"ssm.group_count", 1},
                                                                           {"ssm.time_step_rank", 3},
                                                                           {"ssm.inner_size", 12}})
    model.key("falcon-h1." + key, value);
  const ModelSpec spec = spec_of(model);
  REQUIRE(spec.layer(0).recurrent);
  CHECK(spec.attends(0));
  CHECK(spec.layer(0).turns);
  CHECK(spec.layer(0).has_ffn);
  CHECK(spec.n_kv_heads == 2);
}

TEST_CASE("mamba spec: the array of widths also counts layers that are not run") {
  TinyModel model = tiny_mamba("nemotron_h");
  model.key("nemotron_h.block_count", 5)
      .key("nemotron_h.nextn_predict_layers", 1)
      .array("nemotron_h.attention.head_count_kv", LayerNumbers{0, 0, 2, 0, 2})
      .array("nemotron_h.feed_forward_length", LayerNumbers{0, 48, 0, 0, 48});
  CHECK(text_of_kinds(spec_of(model)) == "M--FA-M-");
}

TEST_CASE("mamba spec: wrong keys are refused in one sentence") {
  struct Case {
    std::string key;
    std::function<void(TinyModel&, const std::string&)> spoil;
    std::string says;
  };
  const auto is = [](int value) {
    return [value](TinyModel& model, const std::string& key) { model.key(key, value); };
  };
  const auto are = [](const LayerNumbers& values) {
    return [values](TinyModel& model, const std::string& key) { model.array(key, values); };
  };
  const auto absent = [](TinyModel& model, const std::string& key) { model.without_key(key); };
  const std::vector<Case> cases = {
      {"ssm.conv_kernel", absent, "ssm.conv_kernel\" is missing"},
      {"ssm.conv_kernel", is(1), "is 1, expected"},
      {"ssm.conv_kernel", is(9), "is 9, expected"},
      {"ssm.state_size", is(0), "is 0, expected"},
      {"ssm.state_size", is(1025), "is 1025, expected"},
      {"ssm.group_count", is(0), "is 0, expected"},
      {"ssm.group_count", is(4), "ssm.time_step_rank\" is 6, expected a multiple of ssm.group_count, 4"},
      {"ssm.time_step_rank", is(0), "is 0, expected"},
      {"ssm.inner_size", is(25), "is 25, expected a multiple of ssm.time_step_rank, 6"},
      {"attention.head_count_kv", is(2), "is not an array, expected an array with a number for each layer"},
      {"attention.head_count_kv", absent, "is absent, expected an array with a number for each layer"},
      {"attention.head_count_kv", are({0, 0, 2}), "attention.head_count_kv\""},
      {"attention.head_count_kv", are({0, 0, -2, 0}), "is -2 in layer 2, expected 0 or more"},
      {"attention.head_count_kv", are({0, 0, 5, 0}), "is 5 in layer 2, expected at most 4"},
      {"attention.head_count_kv", are({0, 0, 3, 0}), "is 3, expected a divisor of head_count, 4"},
      {"attention.head_count_kv", are({4, 0, 2, 0}), "is 2 in layer 2, expected 4 as in the layers before"},
      {"attention.head_count_kv", are({0, 0, 0, 0}),
       "is 0 for every layer, expected at least one of 4 layers to have attention"},
      {"attention.head_count_kv", are({0, 2, 2, 0}),
       "feed_forward_length\" is 48 in layer 1, expected 0, because the layer has attention and nothing "
       "else"},
      {"feed_forward_length", is(48), "is not an array, expected an array with a number for each layer"},
      {"feed_forward_length", are({0, 48, 0, 0, 0}), "feed_forward_length\""},
      {"feed_forward_length", are({-1, 48, 0, 0}), "is -1 in layer 0, expected 0 or more"},
      {"feed_forward_length", are({40, 48, 0, 0}), "is 48 in layer 1, expected 40 as in the layers before"},
      {"feed_forward_length", are({0, 0, 0, 0}),
       "is 0 for every layer, expected at least one of 4 layers to have an FFN"},
      {"moe_latent_size", is(16), "is 16, which does not run: experts read the model's own vectors"},
  };
  for (const Case& bad : cases) {
    INFO(bad.key << ' ' << bad.says);
    TinyModel model = tiny_mamba("nemotron_h");
    bad.spoil(model, "nemotron_h." + bad.key);
    CHECK_THAT(complaint(model), ContainsSubstring(bad.says));
  }
}

TEST_CASE("mamba weights: whole models are bound, and biases of the convolution are optional") {
  for (const char* name : {"nemotron_h", "nemotron_h_moe", "granitehybrid"})
    CHECK(mamba_refusal(tiny_mamba(name)).empty());
  CHECK(mamba_refusal(tiny_mamba("nemotron_h").without_tensor("blk.0.ssm_conv1d.bias")).empty());
}

TEST_CASE("mamba weights: missing, misshapen and misplaced tensors are refused by name") {
  for (const char* name : {"ssm_in.weight", "ssm_out.weight", "ssm_conv1d.weight", "ssm_dt.bias", "ssm_a",
                           "ssm_d", "ssm_norm.weight", "attn_norm.weight"}) {
    INFO(name);
    CHECK_THAT(mamba_refusal(tiny_mamba("nemotron_h").without_tensor(std::string("blk.3.") + name)),
               ContainsSubstring(std::string("\"blk.3.") + name + "\" is missing"));
  }
  struct Case {
    std::string name;
    std::vector<int64_t> shape;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"blk.0.ssm_in.weight", {32, 80}, "is [32, 80], expected [32, 86]"},
      {"blk.0.ssm_out.weight", {32, 24}, "is [32, 24], expected [24, 32]"},
      {"blk.0.ssm_conv1d.weight", {3, 56}, "is [3, 56], expected [4, 56]"},
      {"blk.0.ssm_conv1d.bias", {24}, "is [24], expected [56]"},
      {"blk.0.ssm_a", {6}, "is [6], expected [1, 6]"},
      {"blk.0.ssm_norm.weight", {24}, "is [24], expected [12, 2]"},
      {"blk.0.attn_q.weight", {32, 32}, "is not a part of architecture nemotron_h"},
      {"blk.2.ssm_in.weight", {32, 86}, "is not a part of architecture nemotron_h"},
      {"blk.2.ffn_up.weight", {32, 48}, "is not a part of architecture nemotron_h"},
  };
  for (const Case& bad : cases) {
    INFO(bad.name);
    CHECK_THAT(mamba_refusal(tiny_mamba("nemotron_h").random_tensor(bad.name, bad.shape, -0.5, 0.1)),
               ContainsSubstring("\"" + bad.name + "\" " + bad.says));
  }
}

TEST_CASE("mamba weights: decays that would let a state grow are refused") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {0.5f, infinity, -infinity, std::nanf("")}) {
    INFO(bad);
    CHECK_THAT(
        mamba_refusal(
            tiny_mamba("nemotron_h").tensor("blk.0.ssm_a", {1, 6}, {-1.0f, -0.5f, bad, -1.0f, -2.0f, -3.0f})),
        ContainsSubstring("\"blk.0.ssm_a\" holds a number that is not zero or negative"));
  }
}

}  // namespace hearth::test
