// ModelFile on well-formed files: every kind of key, tensors, versions, alignment, prefault, real models.
#include "engine/model/model_file.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/read_everything.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

ModelFile open_written(const TempFolder& folder, const GgufWriter& writer) {
  writer.write(folder / "model.gguf");
  return ModelFile::open(folder / "model.gguf");
}

Bytes counting_bytes(size_t n) {
  Bytes bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 3);
  return bytes;
}

TEST_CASE("scalar keys of every type are read exactly") {
  const TempFolder folder;
  GgufWriter writer;
  writer.key("u8", uint8_t{255})
      .key("i8", int8_t{-128})
      .key("u16", uint16_t{65535})
      .key("i16", int16_t{-32768});
  writer.key("u32", uint32_t{4294967295u}).key("i32", std::numeric_limits<int32_t>::min());
  writer.key("u64", static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  writer.key("i64", std::numeric_limits<int64_t>::min()).key("f32", 1e-5f).key("f64", 0.1);
  writer.key("yes", true)
      .key("no", false)
      .key("text", "h\xc3\xa9llo")
      .key("empty", "")
      .key("zero", std::string_view("a\0b", 3));
  const ModelFile file = open_written(folder, writer);
  CHECK(file.get_int("u8") == 255);
  CHECK(file.get_int("i8") == -128);
  CHECK(file.get_int("u16") == 65535);
  CHECK(file.get_int("i16") == -32768);
  CHECK(file.get_int("u32") == 4294967295);
  CHECK(file.get_int("i32") == std::numeric_limits<int32_t>::min());
  CHECK(file.get_int("u64") == std::numeric_limits<int64_t>::max());
  CHECK(file.get_int("i64") == std::numeric_limits<int64_t>::min());
  CHECK(file.get_float("f32") == static_cast<double>(1e-5f));
  CHECK(file.get_float("f64") == 0.1);
  CHECK(file.find_bool("yes") == true);
  CHECK(file.find_bool("no") == false);
  CHECK(file.get_string("text") == "h\xc3\xa9llo");
  CHECK(file.get_string("empty").empty());
  CHECK(file.get_string("zero") == std::string_view("a\0b", 3));
  CHECK(file.keys().size() == 15);
  CHECK(file.keys().front() == "u8");
  CHECK(file.describe_key("u16") == "uint16");
  CHECK(file.path() == folder / "model.gguf");
}

TEST_CASE("arrays of every type are read exactly") {
  const TempFolder folder;
  GgufWriter writer;
  writer.array("u8", std::vector<uint8_t>{0, 255}).array("i8", std::vector<int8_t>{-128, 127});
  writer.array("u16", std::vector<uint16_t>{65535}).array("i16", std::vector<int16_t>{-1, 2, -3});
  writer.array("u32", std::vector<uint32_t>{4294967295u}).array("i32", std::vector<int32_t>{-5, 6});
  writer.array("u64", std::vector<uint64_t>{1, 2}).array("i64", std::vector<int64_t>{-9});
  writer.array("f32", std::vector<float>{1.5f, -2.5f}).array("f64", std::vector<double>{0.25, 1e10});
  writer.array("bool", std::vector<bool>{true, false, true});
  writer.array("text", std::vector<std::string>{"a", "", "\xe2\x96\x81the"});
  writer.array("none", std::vector<std::string>{});
  const ModelFile file = open_written(folder, writer);
  using Ints = std::vector<int64_t>;
  CHECK(file.find_ints("u8").value() == Ints{0, 255});
  CHECK(file.find_ints("i8").value() == Ints{-128, 127});
  CHECK(file.find_ints("u16").value() == Ints{65535});
  CHECK(file.find_ints("i16").value() == Ints{-1, 2, -3});
  CHECK(file.find_ints("u32").value() == Ints{4294967295});
  CHECK(file.find_ints("i32").value() == Ints{-5, 6});
  CHECK(file.find_ints("u64").value() == Ints{1, 2});
  CHECK(file.find_ints("i64").value() == Ints{-9});
  CHECK(file.find_ints("bool").value() == Ints{1, 0, 1});
  CHECK(file.find_floats("f32").value() == std::vector<float>{1.5f, -2.5f});
  CHECK(file.find_floats("f64").value() == std::vector<float>{0.25f, 1e10f});
  CHECK(file.find_strings("text").value() == std::vector<std::string_view>{"a", "", "\xe2\x96\x81the"});
  CHECK(file.find_strings("none").value().empty());
  CHECK(file.describe_key("text") == "array of 3 string");
}

TEST_CASE("find() gives nullopt for an absent key, get() throws a sentence") {
  const TempFolder folder;
  const ModelFile file = open_written(folder, GgufWriter().key("here", 1));
  CHECK_FALSE(file.has_key("gone"));
  CHECK_FALSE(file.find_int("gone"));
  CHECK_FALSE(file.find_float("gone"));
  CHECK_FALSE(file.find_bool("gone"));
  CHECK_FALSE(file.find_string("gone"));
  CHECK_FALSE(file.find_strings("gone"));
  CHECK_FALSE(file.find_ints("gone"));
  CHECK_FALSE(file.find_floats("gone"));
  CHECK(file.describe_key("gone").empty());
  CHECK_THROWS_WITH(file.get_int("gone"),
                    ContainsSubstring("model.gguf: key \"gone\" is missing, expected an integer"));
  CHECK_THROWS_WITH(file.get_float("gone"), ContainsSubstring("expected a float"));
  CHECK_THROWS_WITH(file.get_string("gone"), ContainsSubstring("expected a string"));
}

TEST_CASE("a key of the wrong type is refused with its value") {
  const TempFolder folder;
  GgufWriter writer;
  writer.key("int", 7).key("float", 7.0f).key("bool", true).key("text", "7");
  writer.key("big", std::numeric_limits<uint64_t>::max());
  writer.array("ints", std::vector<int32_t>{7}).array("floats", std::vector<float>{7});
  writer.array("texts", std::vector<std::string>{"7"});
  writer.array("bigs", std::vector<uint64_t>{1, std::numeric_limits<uint64_t>::max()});
  const ModelFile file = open_written(folder, writer);
  CHECK_THROWS_WITH(file.find_int("float"),
                    ContainsSubstring("key \"float\" holds float32, expected an integer"));
  CHECK_THROWS_WITH(file.find_int("bool"), ContainsSubstring("holds bool, expected an integer"));
  CHECK_THROWS_WITH(file.find_int("ints"), ContainsSubstring("holds array of 1 int32, expected an integer"));
  CHECK_THROWS_WITH(file.find_int("big"), ContainsSubstring("2^63"));
  CHECK_THROWS_WITH(file.find_float("int"), ContainsSubstring("holds int32, expected a float"));
  CHECK_THROWS_WITH(file.find_bool("int"), ContainsSubstring("expected a bool"));
  CHECK_THROWS_WITH(file.find_string("int"), ContainsSubstring("expected a string"));
  CHECK_THROWS_WITH(file.find_strings("text"),
                    ContainsSubstring("holds string, expected an array of strings"));
  CHECK_THROWS_WITH(file.find_strings("ints"), ContainsSubstring("expected an array of strings"));
  CHECK_THROWS_WITH(file.find_ints("floats"), ContainsSubstring("expected an array of integers"));
  CHECK_THROWS_WITH(file.find_ints("int"), ContainsSubstring("expected an array of integers"));
  CHECK_THROWS_WITH(file.find_ints("bigs"), ContainsSubstring("2^63"));
  CHECK_THROWS_WITH(file.find_floats("ints"), ContainsSubstring("expected an array of floats"));
  CHECK_THROWS_AS(file.find_floats("texts"), ModelFileError);
}

TEST_CASE("tensors of every type and rank are views of the file's own bytes") {
  const TempFolder folder;
  GgufWriter writer;
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    const std::string name(dtype_info(dtype).name);
    writer.tensor(name, dtype, {512, 3}, counting_bytes(row_bytes(dtype, 512) * 3));
  }
  writer.tensor("rank1", {5}, {1, 2, 3, 4, 5});
  writer.tensor("rank4", {2, 1, 3, 2}, std::vector<float>(12, 2.0f));
  const ModelFile file = open_written(folder, writer);
  REQUIRE(file.tensors().size() == kDTypeCount + 2);
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    CAPTURE(dtype_info(dtype).name);
    const TensorInfo* tensor = file.find_tensor(dtype_info(dtype).name);
    REQUIRE(tensor == &file.tensors()[static_cast<size_t>(i)]);
    CHECK(tensor->dtype == dtype);
    CHECK(tensor->n_dims == 2);
    CHECK(tensor->shape == std::array<int64_t, 4>{512, 3, 1, 1});
    CHECK(tensor->bytes == row_bytes(dtype, 512) * 3);
    CHECK(reinterpret_cast<uintptr_t>(tensor->data) % 32 == 0);
    const Bytes expected = counting_bytes(tensor->bytes);
    CHECK(std::memcmp(tensor->data, expected.data(), tensor->bytes) == 0);
  }
  CHECK(file.find_tensor("rank1")->n_dims == 1);
  CHECK(file.find_tensor("rank4")->shape == std::array<int64_t, 4>{2, 1, 3, 2});
  CHECK(file.find_tensor("rank5") == nullptr);
  CHECK(file.find_tensor("") == nullptr);
}

TEST_CASE("versions 2 and 3 and any allowed alignment open alike") {
  const TempFolder folder;
  const uint32_t version = GENERATE(2u, 3u);
  const uint32_t alignment = GENERATE(8u, 32u, 64u, 4096u);
  GgufWriter writer;
  writer.version(version).alignment(alignment).tensor("a", {3}, {1, 2, 3}).tensor("b", {2}, {4, 5});
  const ModelFile file = open_written(folder, writer);
  const TensorInfo* b = file.find_tensor("b");
  REQUIRE(b != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(b->data) % alignment == 0);
  float values[2];
  std::memcpy(values, b->data, sizeof values);
  CHECK(values[0] == 4.0f);
  CHECK(values[1] == 5.0f);
}

TEST_CASE("a file without tensors or keys opens, as vocabularies may be") {
  const TempFolder folder;
  const ModelFile file = open_written(folder, GgufWriter());
  CHECK(file.keys().empty());
  CHECK(file.tensors().empty());
  CHECK(file.total_bytes() == 24);
}

TEST_CASE("moving a model file keeps its views") {
  const TempFolder folder;
  ModelFile first = open_written(folder, GgufWriter().key("text", "abc").tensor("t", {1}, {9.0f}));
  const std::string_view text = first.get_string("text");
  const TensorInfo* tensor = first.find_tensor("t");
  ModelFile second = std::move(first);
  CHECK(text == "abc");
  CHECK(second.find_tensor("t") == tensor);
  second = open_written(folder, GgufWriter().key("text", "xyz"));
  CHECK(second.get_string("text") == "xyz");
}

TEST_CASE("prefault reports progress up to 1 and lets an exception through") {
  const TempFolder folder;
  // Three chunks of 16 MiB, so that progress is reported before the end.
  const size_t bytes = size_t{40} << 20;
  const ModelFile file = open_written(
      folder, GgufWriter().tensor("t", DType::kF16, {static_cast<int64_t>(bytes / 2)}, Bytes(bytes)));
  std::vector<double> shares;
  file.prefault([&](double share) { shares.push_back(share); });
  REQUIRE_FALSE(shares.empty());
  CHECK(shares.back() == 1.0);
  for (size_t i = 0; i < shares.size(); ++i) {
    CHECK(shares[i] > 0.0);
    if (i > 0) CHECK(shares[i] >= shares[i - 1]);
  }
  file.prefault({});
  CHECK_THROWS_AS(file.prefault([](double) { throw std::domain_error("enough"); }), std::domain_error);
}

void check_whole_file(const std::filesystem::path& path) {
  CAPTURE(path.string());
  const ModelFile file = ModelFile::open(path);
  CHECK_FALSE(file.get_string("general.architecture").empty());
  CHECK(file.find_strings("tokenizer.ggml.tokens").value().size() > 1000);
  CHECK(read_everything(file) > 0);
}

TEST_CASE("the ReLU model opens and can be read to the end") {
  check_whole_file(std::filesystem::path(hearth::testing::source_dir()) /
                   "tests/data/relu/relu-5m-q8_0.gguf");
}

TEST_CASE("the default model opens and can be read to the end") {
  const char* model = std::getenv("HEARTH_TEST_MODEL");
  if (model == nullptr || !std::filesystem::exists(model)) {
    hearth::testing::skip(
        "HEARTH_TEST_MODEL names no file; server/fetch-model.sh prints the default model's path");
    return;
  }
  check_whole_file(model);
}

TEST_CASE("real vocabularies open and can be read to the end") {
  const auto folder = std::filesystem::path(hearth::testing::source_dir()) / "../shared/tokenizers";
  if (!std::filesystem::exists(folder)) {
    hearth::testing::skip("../shared/tokenizers is missing");
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") check_whole_file(entry.path());
  }
}

}  // namespace
}  // namespace hearth::test
