// Tests which file of a repository a name selects.
#include "profiler/store/choice.h"

#include "tests/support/catch.h"

using namespace hearth;

namespace {

std::vector<HubFile> files(std::initializer_list<std::string_view> paths) {
  std::vector<HubFile> list;
  for (const std::string_view path : paths) list.push_back({std::string(path), 1'000'000, ""});
  return list;
}

HubReference asking(std::string quant, std::string file = "") {
  return {
      .owner = "a", .repository = "b", .revision = {}, .file = std::move(file), .quant = std::move(quant)};
}

std::string chosen(std::initializer_list<std::string_view> paths, const HubReference& reference) {
  try {
    return chosen_model(models_in(files(paths)), reference).parts.front().path;
  } catch (const PullError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("choice: a file's quantization is read from its name") {
  CHECK(quant_of("Llama-3.2-1B-Instruct-Q4_K_M.gguf") == "Q4_K_M");
  CHECK(quant_of("llama-2-7b.Q8_0.gguf") == "Q8_0");
  CHECK(quant_of("qwen2.5-0.5b-instruct-q4_k_m.gguf") == "Q4_K_M");
  CHECK(quant_of("Q4_K_M/x-UD-Q4_K_XL-00001-of-00002.gguf") == "UD-Q4_K_XL");
  CHECK(quant_of("gpt-oss-20b-mxfp4.gguf") == "MXFP4");
  CHECK(quant_of("model_iq3_xxs.gguf") == "IQ3_XXS");
  CHECK(quant_of("x-bf16.gguf") == "BF16");
  CHECK(quant_of("x-TQ1_0.gguf") == "TQ1_0");
  CHECK(quant_of("gemma-3-4b-it-Q4_0-imat.gguf") == "Q4_0");
  CHECK(quant_of("Qwen3-4B.gguf").empty());
  CHECK(quant_of("Q9_0.gguf").empty());
  CHECK(quant_of(".gguf").empty());
}

TEST_CASE("choice: parts of a split model are found by their names") {
  const SplitName split = split_name("a/x-00002-of-00003.gguf");
  CHECK(split.stem == "a/x");
  CHECK(split.part == 2);
  CHECK(split.n_parts == 3);
  for (const std::string_view whole :
       {"x.gguf", "x-00004-of-00003.gguf", "x-00000-of-00003.gguf", "x-1-of-2.gguf", "-00001-of-00001"}) {
    INFO(whole);
    CHECK((split_name(whole).n_parts == 1));
  }
}

TEST_CASE("choice: by default about 4 bits are chosen, and never a projector or an importance matrix") {
  CHECK(chosen({"x-Q8_0.gguf", "x-Q4_K_M.gguf", "x-F16.gguf"}, asking("")) == "x-Q4_K_M.gguf");
  CHECK(chosen({"x-Q8_0.gguf", "x-Q5_K_M.gguf", "x-F16.gguf"}, asking("")) == "x-Q5_K_M.gguf");
  CHECK(chosen({"x-Q8_0.gguf", "x-F16.gguf"}, asking("")) == "x-Q8_0.gguf");
  CHECK(chosen({"only.gguf", "README.md"}, asking("")) == "only.gguf");
  CHECK(chosen({"mmproj-x-Q4_K_M.gguf", "x-imatrix.gguf", "x-Q2_K.gguf"}, asking("")) == "x-Q2_K.gguf");
  CHECK_THAT(chosen({"one.gguf", "two.gguf"}, asking("")),
             ContainsSubstring("one.gguf") && ContainsSubstring("two.gguf"));
  CHECK_THAT(chosen({"model.safetensors"}, asking("")), ContainsSubstring("no GGUF file"));
}

TEST_CASE("choice: a quantization matches in any case, and the available ones are listed if none does") {
  CHECK(chosen({"x-Q8_0.gguf", "x-Q4_K_M.gguf"}, asking("q8_0")) == "x-Q8_0.gguf");
  CHECK(chosen({"x-UD-Q4_K_XL.gguf"}, asking("Q4_K_XL")) == "x-UD-Q4_K_XL.gguf");
  CHECK_THAT(
      chosen({"x-Q8_0.gguf", "x-Q4_K_M.gguf"}, asking("Q4_K")),
      ContainsSubstring("no Q4_K") && ContainsSubstring("Q8_0 (1.0 MB)") && ContainsSubstring("Q4_K_M"));
  CHECK_THAT(chosen({"x-Q8_0.gguf", "y-Q8_0.gguf"}, asking("Q8_0")),
             ContainsSubstring("2 models") && ContainsSubstring("y-Q8_0.gguf"));
  CHECK_THAT(chosen({"mmproj-Q8_0.gguf", "x-Q4_0.gguf"}, asking("Q8_0")), ContainsSubstring("no Q8_0"));
}

TEST_CASE("choice: a file can be named with or without its folder") {
  CHECK(chosen({"s/x-Q8_0.gguf", "x-Q4_0.gguf"}, asking("", "s/x-Q8_0.gguf")) == "s/x-Q8_0.gguf");
  CHECK(chosen({"s/x-Q8_0.gguf", "x-Q4_0.gguf"}, asking("", "x-Q8_0.gguf")) == "s/x-Q8_0.gguf");
  CHECK_THAT(chosen({"x-Q4_0.gguf"}, asking("", "y.gguf")), ContainsSubstring("no \"y.gguf\""));
}

TEST_CASE("choice: all parts of a split model come together, in order, or none") {
  const auto models =
      models_in(files({"x-Q8_0-00002-of-00002.gguf", "x-Q8_0-00001-of-00002.gguf", "x-Q4_0.gguf"}));
  const ModelFilesOnHub model = chosen_model(models, asking("Q8_0"));
  REQUIRE(model.parts.size() == 2);
  CHECK(model.parts[0].path == "x-Q8_0-00001-of-00002.gguf");
  CHECK(model.bytes() == 2'000'000);
  CHECK(chosen({"x-Q8_0-00001-of-00002.gguf", "x-Q8_0-00002-of-00002.gguf"},
               asking("", "x-Q8_0-00002-of-00002.gguf")) == "x-Q8_0-00001-of-00002.gguf");
  CHECK_THAT(chosen({"x-Q8_0-00001-of-00002.gguf"}, asking("Q8_0")), ContainsSubstring("only 1 of 2 parts"));
}
