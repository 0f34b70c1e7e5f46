// The table of mixes and its rules. test_quantize.py checks the types of whole models.
#include "profiler/quantize/mix.h"

#include <string>

#include "kernels/quant/quantize.h"
#include "kernels/quant/quantize_fitted.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

TEST_CASE("mixes are found by name, and use only types that can be written") {
  CHECK(find_mix("Q4_K")->name == "Q4_K_M");
  CHECK(find_mix("q5_k")->name == "Q5_K_M");
  CHECK(find_mix("mxfp4")->name == "MXFP4");
  CHECK(find_mix("Q3_K") == nullptr);
  CHECK(find_mix("") == nullptr);
  for (const QuantMix& mix : quant_mixes()) {
    CAPTURE(mix.name);
    CHECK(find_mix(mix.name) == &mix);
    for (const DType type : {mix.matrices, mix.ffn, mix.output, mix.fused_qkv, mix.rich}) {
      CHECK((can_quantize(type) || can_fit(type)));
    }
  }
}

TEST_CASE("a choice never has more bits than the tensor, and kept tensors keep their type") {
  TempFolder folder;
  for (const char* architecture : {"llama", "qwen2", "bert", "gpt2"}) {
    CAPTURE(architecture);
    const std::filesystem::path path = folder / (std::string(architecture) + ".gguf");
    TinyModel(architecture).write(path);
    const ModelFile model = ModelFile::open(path);
    for (const QuantMix& mix : quant_mixes()) {
      const std::vector<TensorChoice> choices = choose_types(model, mix);
      REQUIRE(choices.size() == model.tensors().size());
      for (const TensorChoice& choice : choices) {
        CAPTURE(mix.name, choice.tensor->name);
        CHECK(bits_of(choice.type) <= bits_of(choice.tensor->dtype));
        CHECK(choice.tensor->shape[0] % dtype_info(choice.type).block_elems == 0);
        const bool vector =
            choice.tensor->n_dims == 1 || choice.tensor->name.find("norm") != std::string_view::npos;
        if (vector) CHECK(choice.type == choice.tensor->dtype);
      }
    }
  }
}

}  // namespace
}  // namespace hearth::test
