// Real vocabularies with the ids that their models' own tokenizers give, from ../shared/tokenizers.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/model_file.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

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

}  // namespace

TEST_CASE("Real vocabularies give the expected ids") {
  const std::filesystem::path folder =
      std::filesystem::path(hearth::testing::source_dir()) / "../shared/tokenizers";
  if (!std::filesystem::exists(folder)) {
    WARN("../shared/tokenizers is absent: real vocabularies are not tried");
    return;
  }
  int n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    CAPTURE(entry.path().filename().string());
    const ModelFile file = ModelFile::open(entry.path());
    const auto tokenizer = Tokenizer::from_model(file);
    const std::vector<std::string> texts = split_texts(read(entry.path().string() + ".inp"));
    std::istringstream ids(read(entry.path().string() + ".out"));
    for (const std::string& text : texts) {
      std::string line;
      std::getline(ids, line);  // the last text may be empty, and so its line
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
