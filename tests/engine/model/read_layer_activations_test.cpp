// Numbers of activations that differ between layers: xIELU's of Apertus, and the limits of Step 3.5.
#include "engine/model/read_layer_activations.h"

#include <cmath>

#include "engine/model/model_spec.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_spec.h"

namespace hearth::test {
namespace {

using Floats = std::vector<float>;

TinyModel apertus() {
  return TinyModel("apertus")
      .array("xielu.alpha_p", Floats{0.0f, 1.0f})
      .array("xielu.alpha_n", Floats{-1.0f, 0.0f})
      .array("xielu.beta", Floats{0.5f, 0.25f})
      .array("xielu.eps", Floats{-1e-6f, -1e-3f});
}

TinyModel clamped() {
  return TinyModel("step35")
      .array("step35.swiglu_clamp_exp", Floats{0.0f, 7.0f})
      .array("step35.swiglu_clamp_shexp", Floats{16.0f, 0.0f});
}

}  // namespace

TEST_CASE("layer activations: files have xIELU's alphas before their softplus") {
  const ModelSpec spec = spec_of(apertus());
  CHECK(spec.activation.kind == Activation::kXielu);
  const FfnActivation first = spec.layer(0).ffn_activation.value(), second = *spec.layer(1).ffn_activation;
  CHECK(first.kind == Activation::kXielu);
  CHECK(std::abs(first.xielu.alpha_p - 0.693147f) < 1e-6f);
  CHECK(std::abs(first.xielu.alpha_n - 0.813262f) < 1e-6f);
  CHECK(first.xielu.beta == 0.5f);
  CHECK(std::abs(second.xielu.alpha_p - 1.313262f) < 1e-6f);
  CHECK(std::abs(second.xielu.alpha_n - 0.943147f) < 1e-6f);
  CHECK(second.xielu.eps == -1e-3f);
  CHECK(spec.cpu_only_kind().empty());
}

TEST_CASE("layer activations: one number is that of all layers") {
  const ModelSpec spec = spec_of(apertus().key("xielu.beta", 0.75f));
  CHECK(spec.layer(0).ffn_activation->xielu.beta == 0.75f);
  CHECK(spec.layer(1).ffn_activation->xielu.beta == 0.75f);
}

TEST_CASE("layer activations: numbers that are missing or out of range are refused") {
  TinyModel without = apertus();
  without.without_key("xielu.alpha_n");
  CHECK_THAT(complaint(without), ContainsSubstring("\"xielu.alpha_n\" is absent"));
  CHECK_THAT(complaint(apertus().array("xielu.beta", Floats{0.5f})), ContainsSubstring("is 1 numbers"));
  CHECK_THAT(complaint(apertus().array("xielu.beta", Floats{0.5f, NAN})),
             ContainsSubstring("\"xielu.beta\" is nan in layer 1"));
  CHECK_THAT(complaint(apertus().array("xielu.eps", Floats{0.0f, -1e-6f})),
             ContainsSubstring("\"xielu.eps\" is 0.000000 in layer 0"));
}

TEST_CASE("layer activations: an activation in place of xIELU is refused") {
  CHECK_THAT(complaint(apertus().key("hearth.ffn_activation", "relu")), ContainsSubstring("have xielu"));
  CHECK_THAT(complaint(TinyModel("llama").key("hearth.ffn_activation", "xielu")),
             ContainsSubstring("is \"xielu\", expected"));
}

TEST_CASE("layer activations: experts and the other FFNs have limits of their own, and 0 is none") {
  const ModelSpec spec = spec_of(clamped());
  CHECK_FALSE(spec.layer(0).expert_activation);
  CHECK(spec.expert_activation_of(0) == FfnActivation{Activation::kSilu});
  CHECK(spec.expert_activation_of(1) == FfnActivation{.kind = Activation::kSwigluClamped, .limit = 7.0f});
  CHECK(spec.layer(0).ffn_activation->limit == 16.0f);
  CHECK_FALSE(spec.layer(1).ffn_activation);
  CHECK(spec.cpu_only_kind().empty());
  CHECK_THAT(complaint(clamped().array("step35.swiglu_clamp_exp", Floats{-1.0f, 0.0f})),
             ContainsSubstring("\"step35.swiglu_clamp_exp\" is -1.000000 in layer 0"));
}

}  // namespace hearth::test
