// ModelFile with models split over several files: the name of any part opens all, and messages name what is
// missing or wrong.
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/gguf/part.h"
#include "engine/model/model_file.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

GgufWriter seven_tensors() {
  GgufWriter writer;
  writer.key("general.architecture", "llama").alignment(64);
  for (int i = 0; i < 7; ++i)
    writer.tensor("t" + std::to_string(i), {3}, std::vector<float>(3, static_cast<float>(i)));
  return writer;
}

TEST_CASE("a split model opens by any part's name") {
  const TempFolder folder;
  const std::vector<fs::path> parts = seven_tensors().write_split(folder.path(), "model", 3);
  size_t total = 0;
  for (const fs::path& part : parts) total += fs::file_size(part);
  for (const fs::path& part : parts) {
    CAPTURE(part.string());
    const ModelFile file = ModelFile::open(part);
    CHECK(file.path() == part);
    CHECK(file.total_bytes() == total);
    CHECK(file.get_string("general.architecture") == "llama");
    REQUIRE(file.tensors().size() == 7);
    for (size_t i = 0; i < 7; ++i) {
      const TensorInfo& tensor = file.tensors()[i];
      CHECK(tensor.name == "t" + std::to_string(i));
      float value = -1;
      std::memcpy(&value, tensor.data, sizeof value);
      CHECK(value == static_cast<float>(i));
    }
  }
}

TEST_CASE("a missing part is named") {
  const TempFolder folder;
  const std::vector<fs::path> parts = seven_tensors().write_split(folder.path(), "model", 3);
  fs::remove(parts[1]);
  CHECK_THROWS_WITH(ModelFile::open(parts[2]), ContainsSubstring("part 2 of 3 is missing") &&
                                                   ContainsSubstring("model-00002-of-00003.gguf"));
  CHECK_THROWS_WITH(ModelFile::open(parts[1]), ContainsSubstring("there is no such file"));
}

TEST_CASE("a part that is damaged or not a file is named") {
  const TempFolder folder;
  const std::vector<fs::path> parts = seven_tensors().write_split(folder.path(), "model", 3);
  fs::resize_file(parts[2], fs::file_size(parts[2]) - 1);
  CHECK_THROWS_WITH(
      ModelFile::open(parts[0]),
      ContainsSubstring("model-00003-of-00003.gguf: tensor \"t6\"") && ContainsSubstring("truncated"));
  fs::remove(parts[2]);
  REQUIRE(::mkfifo(parts[2].c_str(), 0600) == 0);
  CHECK_THROWS_WITH(ModelFile::open(parts[0]), ContainsSubstring("00003-of-00003.gguf: it is a pipe"));
}

TEST_CASE("a part under another's name is refused") {
  const TempFolder folder;
  const std::vector<fs::path> parts = seven_tensors().write_split(folder.path(), "model", 3);
  fs::copy_file(parts[0], parts[1], fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(ModelFile::open(parts[0]),
                    ContainsSubstring("model-00002-of-00003.gguf: its keys split.no and "
                                      "split.count are 0 and 3, expected 1 and 3"));
  CHECK_THROWS_WITH(ModelFile::open(parts[1]), ContainsSubstring("are 0 and 3, expected 1 and 3"));
}

TEST_CASE("a part without the other's form of name is refused") {
  const TempFolder folder;
  const std::vector<fs::path> parts = seven_tensors().write_split(folder.path(), "model", 2);
  fs::rename(parts[0], folder / "model.gguf");
  CHECK_THROWS_WITH(ModelFile::open(folder / "model.gguf"),
                    ContainsSubstring("it is one of 2 parts, expected a name like NAME-00001-of-0000N.gguf"));
}

TEST_CASE("parts of different models are refused") {
  const TempFolder folder;
  const std::vector<fs::path> parts = seven_tensors().write_split(folder.path(), "model", 2);
  GgufWriter other;
  other.key("split.no", uint16_t{1}).key("split.count", uint16_t{2}).tensor("other", {1}, {1.0f});
  SECTION("another number of tensors") {
    other.write(parts[1]);
    CHECK_THROWS_WITH(ModelFile::open(parts[0]),
                      ContainsSubstring("hold 4 tensors") && ContainsSubstring("says 7"));
  }
  SECTION("the same tensor twice") {
    other.tensor("t0", {1}, {1.0f}).write(parts[1]);
    CHECK_THROWS_WITH(ModelFile::open(parts[0]), ContainsSubstring("tensor \"t0\" occurs twice"));
  }
  SECTION("PowerInfer's magic in one of them") {
    const std::vector<fs::path> sparse =
        seven_tensors().magic("PWRI").write_split(folder.path(), "sparse", 2);
    CHECK(ModelFile::open(sparse[0]).is_powerinfer());
    fs::rename(sparse[1], parts[1]);
    CHECK_THROWS_WITH(ModelFile::open(parts[0]),
                      ContainsSubstring("some of its parts begin with") && ContainsSubstring("\"PWRI\""));
  }
  SECTION("a whole model in the place of a part") {
    seven_tensors().write(parts[1]);
    CHECK_THROWS_WITH(ModelFile::open(parts[0]), ContainsSubstring("key \"split.count\" is missing"));
  }
  SECTION("a key of another type") {
    GgufWriter().key("split.no", "1").key("split.count", uint16_t{2}).write(parts[1]);
    CHECK_THROWS_WITH(ModelFile::open(parts[0]), ContainsSubstring("key \"split.no\" holds string"));
  }
}

TEST_CASE("a whole model may have any name, and split.count 1") {
  const TempFolder folder;
  seven_tensors().write(folder / "model-00002-of-00003.gguf");
  CHECK(ModelFile::open(folder / "model-00002-of-00003.gguf").tensors().size() == 7);
  const std::vector<fs::path> parts = seven_tensors().write_split(folder.path(), "single", 1);
  fs::rename(parts[0], folder / "renamed.gguf");
  CHECK(ModelFile::open(folder / "renamed.gguf").tensors().size() == 7);
}

TEST_CASE("names of parts are distinguished from other names") {
  const std::optional<gguf::SplitName> name = gguf::parse_split_name("/models/a-b-00002-of-00013.gguf");
  REQUIRE(name.has_value());
  CHECK(name->stem == "a-b");
  CHECK(name->number == 2);
  CHECK(name->count == 13);
  CHECK(gguf::split_path(*name, 13) == "/models/a-b-00013-of-00013.gguf");
  for (const char* other : {"", "model.gguf", "-of-.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf",
                            "m-0001-of-00003.gguf", "m-00001-of-00003.bin", "m-0000a-of-00003.gguf",
                            "m_00001-of-00003.gguf", "m--0001-of-00003.gguf", "m-00001-of-+0003.gguf"}) {
    CAPTURE(other);
    CHECK_FALSE(gguf::parse_split_name(other).has_value());
  }
}

}  // namespace
}  // namespace hearth::test
