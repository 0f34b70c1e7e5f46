// Tests the facts that are read from a model's file.
#include "server/api/model_file_facts.h"

#include <filesystem>

#include "engine/model/model_identity.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth {
namespace {

using test::TempFolder;
using test::TinyModel;

TEST_CASE("a model's facts are what its file holds") {
  const TempFolder folder;
  TinyModel model;
  model.key("general.name", "tiny")
      .key("general.quantized", true)
      .key("tokenizer.chat_template", "{{ messages }}");
  model.write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  const ModelFileFacts facts = read_model_file_facts(file, read_model_spec(file));
  CHECK(facts.architecture == "llama");
  CHECK(facts.quantization == "F32");
  CHECK(facts.digest == hex_text(content_hash(file)));
  CHECK(facts.file_bytes == static_cast<int64_t>(std::filesystem::file_size(folder / "model.gguf")));
  CHECK(facts.modified > 0);
  int64_t n = 0;
  for (const TensorInfo& tensor : file.tensors()) n += static_cast<int64_t>(tensor.bytes) / 4;
  CHECK(facts.n_parameters == n);
  CHECK(facts.device_bytes == 0);
  CHECK(facts.keys["general.parameter_count"] == n);
  CHECK(facts.keys["general.name"] == "tiny");
  CHECK(facts.keys["general.quantized"] == true);
  CHECK(facts.keys["llama.context_length"] == 64);
  CHECK(facts.keys["llama.attention.layer_norm_rms_epsilon"].is_number_float());
  CHECK(facts.keys["tokenizer.ggml.tokens"].is_null());
  CHECK_FALSE(facts.keys.contains("tokenizer.chat_template"));
}

}  // namespace
}  // namespace hearth
