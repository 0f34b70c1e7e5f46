// The names of activations, and which activation a model gets if option, key and architecture agree or
// disagree.
#include "engine/model/ffn_activation.h"

#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

const Architecture kGated{.name = "llama"};
const Architecture kUngated{.name = "opt", .activation = {Activation::kRelu}, .gated = false};
const Architecture kErf{.name = "falcon", .activation = {Activation::kGeluErf}, .gated = false};
const Architecture kDouble{.name = "bamboo", .activation = {Activation::kDRelu}};

/// The activation of a file with that key (empty: no key).
FfnActivation decide(const Architecture& arch, const std::string& option, const std::string& key,
                     bool powerinfer = false) {
  const TempFolder folder;
  TinyModel model;
  if (powerinfer) model.powerinfer();
  if (!key.empty()) model.key("hearth.ffn_activation", key);
  model.write(folder / "model.gguf");
  return decide_ffn_activation(ModelFile::open(folder / "model.gguf"), arch, option);
}

std::string complaint(const Architecture& arch, const std::string& option, const std::string& key,
                      bool powerinfer = false) {
  try {
    decide(arch, option, key, powerinfer);
  } catch (const ModelFileError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("ffn activation: names parse and print alike") {
  CHECK(parse_ffn_activation("relu") == FfnActivation{Activation::kRelu});
  CHECK(parse_ffn_activation("drelu") == FfnActivation{Activation::kDRelu});
  CHECK(parse_ffn_activation("relu2") == FfnActivation{Activation::kRelu2});
  CHECK(parse_ffn_activation("silu") == FfnActivation{Activation::kSilu});
  CHECK(parse_ffn_activation("gelu") == FfnActivation{Activation::kGelu});
  CHECK(parse_ffn_activation("swiglu-oai") == FfnActivation{Activation::kSwigluOai});
  CHECK(parse_ffn_activation("fatrelu:0.01") == FfnActivation{Activation::kRelu, 0.01f});
  CHECK(parse_ffn_activation("fatrelu:0") == FfnActivation{Activation::kRelu});
  CHECK(parse_ffn_activation("fatrelu:-0") == FfnActivation{Activation::kRelu});
  for (const char* name :
       {"relu", "drelu", "relu2", "silu", "gelu", "swiglu-oai", "fatrelu:0.01", "fatrelu:1.5"}) {
    CHECK(ffn_activation_name(parse_ffn_activation(name).value()) == name);
  }
  CHECK(ffn_activation_name({Activation::kGeluErf}) == "gelu");
  for (const char* name : {"", "ReLU", "relu ", "swish", "fatrelu", "fatrelu:", "fatrelu:x", "fatrelu:0.1x",
                           "fatrelu:-1", "fatrelu:nan", "fatrelu:inf", "fatrelu:1e9", "fatrelu:1e99"}) {
    INFO(name);
    CHECK_FALSE(parse_ffn_activation(name));
  }
}

TEST_CASE("ffn activation: only the relus have zeros") {
  for (const char* name : {"relu", "drelu", "relu2", "fatrelu:0.5"}) {
    CHECK(parse_ffn_activation(name)->has_zeros());
  }
  CHECK_FALSE(FfnActivation{Activation::kSilu}.has_zeros());
  CHECK_FALSE(FfnActivation{Activation::kGelu}.has_zeros());
  CHECK_FALSE(FfnActivation{Activation::kGeluErf}.has_zeros());
  CHECK_FALSE(FfnActivation{Activation::kSwigluOai}.has_zeros());
}

TEST_CASE("ffn activation: the option wins, then the key, then the architecture's default") {
  CHECK(decide(kGated, "", "") == FfnActivation{Activation::kSilu});
  CHECK(decide(kGated, "", "relu") == FfnActivation{Activation::kRelu});
  CHECK(decide(kGated, "drelu", "") == FfnActivation{Activation::kDRelu});
  CHECK(decide(kGated, "fatrelu:0.01", "fatrelu:1e-2") == FfnActivation{Activation::kRelu, 0.01f});
  CHECK(decide(kUngated, "", "") == FfnActivation{Activation::kRelu});
  CHECK(decide(kUngated, "gelu", "") == FfnActivation{Activation::kGelu});
  CHECK(decide(kErf, "relu", "") == FfnActivation{Activation::kRelu});
  CHECK(decide(kErf, "gelu", "") == FfnActivation{Activation::kGeluErf});
  CHECK(decide(kErf, "", "gelu") == FfnActivation{Activation::kGeluErf});
  CHECK(decide(kDouble, "drelu", "") == FfnActivation{Activation::kDRelu});
}

TEST_CASE("ffn activation: contradictions are refused with a way out") {
  CHECK_THAT(complaint(kGated, "silu", "relu"),
             ContainsSubstring("model.gguf: --ffn-activation says silu") &&
                 ContainsSubstring("\"hearth.ffn_activation\" says relu") &&
                 ContainsSubstring("leave the option out"));
  CHECK_THAT(complaint(kGated, "fatrelu:0.01", "fatrelu:0.02"),
             ContainsSubstring("fatrelu:0.01") && ContainsSubstring("fatrelu:0.02"));
  CHECK_THAT(complaint(kUngated, "drelu", ""),
             ContainsSubstring("architecture opt has no gate") && ContainsSubstring("say relu"));
  CHECK_THAT(complaint(kUngated, "swiglu-oai", ""), ContainsSubstring("architecture opt has no gate"));
  CHECK_THAT(complaint(kUngated, "", "drelu"), ContainsSubstring("key \"hearth.ffn_activation\" says"));
  CHECK_THAT(complaint(kDouble, "silu", ""), ContainsSubstring("architecture bamboo have drelu"));
  CHECK_THAT(complaint(kGated, "", "\x1b[1mswish"),
             ContainsSubstring("\"\\x1b[1mswish\"") && ContainsSubstring("gelu or swiglu-oai"));
  CHECK_THROWS_WITH(decide(kGated, "swish", ""),
                    ContainsSubstring("\"swish\" is unknown") && ContainsSubstring("fatrelu:T"));
  CHECK_THROWS_AS(decide(kGated, "swish", ""), std::invalid_argument);
}

TEST_CASE("ffn activation: a PowerInfer file has relu, and nothing without zeros") {
  const Architecture llama{.name = "llama", .powerinfer_activation = FfnActivation{Activation::kRelu}};
  CHECK(decide(llama, "", "", true) == FfnActivation{Activation::kRelu});
  CHECK(decide(llama, "fatrelu:0.01", "", true) == FfnActivation{Activation::kRelu, 0.01f});
  CHECK(decide(llama, "", "drelu", true) == FfnActivation{Activation::kDRelu});
  CHECK_THAT(complaint(llama, "silu", "", true),
             ContainsSubstring("--ffn-activation says the FFN's activation is "
                               "silu, but the file is PowerInfer's"));
  CHECK_THAT(complaint(llama, "", "gelu", true), ContainsSubstring("key \"hearth.ffn_activation\" says"));
}

TEST_CASE("ffn activation: it becomes part of a model's facts") {
  const TempFolder folder;
  TinyModel().write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  CHECK(read_model_spec(file).activation == FfnActivation{Activation::kSilu});
  CHECK(read_model_spec(file, "fatrelu:0.25").activation == FfnActivation{Activation::kRelu, 0.25f});
}

}  // namespace hearth::test
