// Real vocabularies with the ids that their models' own tokenizers give, from ../shared/tokenizers.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/model/model_file.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<std::string> split_texts(const std::string& all) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  size_t begin = 0;
  for (size_t end = 0; (end = all.find(separator, begin)) != std::string::npos;
       begin = end + separator.size()) {
    texts.push_back(all.substr(begin, end - begin));
  }
  texts.push_back(all.substr(begin));
  return texts;
}

std::vector<int32_t> parse_ids(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<int32_t>(in), {}};
}

/// Writes a file of this architecture with another file's vocabulary, as converters did before
/// tokenizer.ggml.pre.
void write_without_pre(const ModelFile& file, const std::string& architecture, const fs::path& path) {
  const auto strings = [&file](const char* key) {
    const std::vector<std::string_view> found = file.find_strings(key).value();
    return std::vector<std::string>(found.begin(), found.end());
  };
  const std::vector<int64_t> numbers = file.find_ints("tokenizer.ggml.token_type").value();
  const std::vector<int32_t> types(numbers.begin(), numbers.end());
  test::GgufWriter()
      .key("general.architecture", architecture)
      .key("tokenizer.ggml.model", "gpt2")
      .array("tokenizer.ggml.tokens", strings("tokenizer.ggml.tokens"))
      .array("tokenizer.ggml.merges", strings("tokenizer.ggml.merges"))
      .array("tokenizer.ggml.token_type", types)
      .key("tokenizer.ggml.bos_token_id", uint32_t{2})
      .write(path);
}

}  // namespace

TEST_CASE("Vocabularies of files that name no pre-tokenizer give the ids of their architecture") {
  const fs::path folder = fs::path(hearth::testing::source_dir()) / "../shared/tokenizers";
  if (!fs::exists(folder)) {
    hearth::testing::skip("../shared/tokenizers is missing");
    return;
  }
  const test::TempFolder temp;
  for (const auto& [architecture, name] : {std::pair{"opt", "gpt-2"}, std::pair{"falcon", "falcon"}}) {
    const fs::path path = folder / (std::string("ggml-vocab-") + name + ".gguf");
    write_without_pre(ModelFile::open(path), architecture, temp / "old.gguf");
    const ModelFile file = ModelFile::open(temp / "old.gguf");
    const auto tokenizer = Tokenizer::from_model(file);
    std::istringstream ids(read(path.string() + ".out"));
    for (const std::string& text : split_texts(read(path.string() + ".inp"))) {
      std::string line;
      std::getline(ids, line);
      CAPTURE(architecture, text);
      const std::vector<int32_t> expected = parse_ids(line);
      CHECK(tokenizer->encode(text, false, false) == expected);
      // opt begins every text with its one end token.
      const bool begins = std::string(architecture) == "opt";
      CHECK(tokenizer->encode(text, true, false).size() == expected.size() + (begins ? 1 : 0));
    }
  }
}

TEST_CASE("Real vocabularies give the expected ids") {
  const fs::path folder = fs::path(hearth::testing::source_dir()) / "../shared/tokenizers";
  if (!fs::exists(folder)) {
    hearth::testing::skip("../shared/tokenizers is missing");
    return;
  }
  int n_files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    CAPTURE(entry.path().filename().string());
    const ModelFile file = ModelFile::open(entry.path());
    const auto tokenizer = Tokenizer::from_model(file);
    const std::vector<std::string> texts = split_texts(read(entry.path().string() + ".inp"));
    std::istringstream ids(read(entry.path().string() + ".out"));
    for (const std::string& text : texts) {
      std::string line;
      std::getline(ids, line);  // the last text, and so its line, may be empty
      CAPTURE(text);
      const std::vector<int32_t> tokens = tokenizer->encode(text, false, false);
      CHECK(tokens == parse_ids(line));
      CHECK(tokenizer->decode(tokens, false) == text);
    }
    CHECK(texts.size() > 40);
    ++n_files;
  }
  CHECK(n_files >= 5);
}

}  // namespace hearth
