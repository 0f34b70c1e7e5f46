// Binding an assistant: which model it belongs to, and assistants of other models.
#include "engine/model/assistant_weights.h"

#include <filesystem>
#include <map>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/changed_model.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

std::filesystem::path arch_model(const std::string& name) {
  return std::filesystem::path(testing::source_dir()) / "tests/data/arch" / (name + ".gguf");
}

/// Returns why the tiny assistant, with these numbers in its keys, cannot draft for a tiny model.
std::string why_refused(const std::string& model, const std::map<std::string, uint32_t>& keys) {
  const TempFolder folder;
  testing::write_changed(arch_model("gemma4-assistant"), folder / "assistant.gguf", keys);
  const ModelFile file = ModelFile::open(arch_model(model));
  const ModelSpec spec = read_model_spec(file);
  const Weights weights = bind_weights(file, spec);
  const ModelFile assistant = ModelFile::open(folder / "assistant.gguf");
  try {
    bind_assistant(assistant, spec, weights);
  } catch (const ModelFileError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("assistant: its layers read the model's last layers of their kind, with one position less") {
  const ModelFile file = ModelFile::open(arch_model("gemma4"));
  const ModelSpec spec = read_model_spec(file);
  const Weights weights = bind_weights(file, spec);
  const ModelFile assistant_file = ModelFile::open(arch_model("gemma4-assistant"));
  CHECK(is_assistant(assistant_file));
  CHECK_FALSE(is_assistant(file));
  const auto assistant = bind_assistant(assistant_file, spec, weights);
  // The model's layers 2 and 5 have no window.
  CHECK(assistant->sources == std::vector{4, 4, 4, 5});
  CHECK(assistant->spec.layer(0).window == spec.layer(4).window - 1);
  CHECK(assistant->spec.layer(3).window == 0);
  CHECK(assistant->embedding.data == weights.token_embedding.data);
  CHECK(assistant->weights.output.weight.data == assistant->weights.token_embedding.data);
}

TEST_CASE("assistant: it is no model, and drafts for its own model only") {
  CHECK_THROWS_WITH(
      read_model_spec(ModelFile::open(arch_model("gemma4-assistant"))),
      ContainsSubstring(
          "it only drafts for a Gemma 4 model; give that model, and this file with --draft-model"));
  CHECK(why_refused("gemma4", {}).empty());
  CHECK_THAT(why_refused("qwen3", {}),
             ContainsSubstring("it drafts for models of architecture gemma4, but the model has architecture "
                               "qwen3; give the assistant that was made for this model"));
  CHECK_THAT(why_refused("gemma4", {{".embedding_length_out", 48}}),
             ContainsSubstring("\"gemma4-assistant.embedding_length_out\" is 48, expected the width of the "
                               "model's hidden states, 32"));
  CHECK_THAT(why_refused("gemma4-e2b", {}),
             ContainsSubstring("layer 0 reads keys of 2 x 16 numbers, expected 1 x 16 as in layer 2"));
  CHECK_THAT(why_refused("gemma4", {{".attention.sliding_window", 9}}),
             ContainsSubstring("layer 0 has a window of 9 positions, expected the model's 8"));
}

}  // namespace hearth::test
