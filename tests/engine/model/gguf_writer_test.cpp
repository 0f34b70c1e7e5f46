// The GGUF writer: ModelFile reads what it writes, and an unfinished file never has the final name.
#include "engine/model/gguf/writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <stdexcept>

#include "engine/model/model_file.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

void write_small(const fs::path& path, const gguf::WriterOptions& options = {}) {
  gguf::Writer writer(path, options);
  writer.key("general.architecture", "llama");
  writer.tensor("a", DType::kF32, {3});
  writer.begin_data();
  writer.write(bytes_of(counting(3)));
  writer.commit();
}

Bytes file_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Bytes bytes;
  append_bytes(bytes, text.data(), text.size());
  return bytes;
}

TEST_CASE("a written file has the bytes of the format") {
  const TempFolder folder;
  gguf::Writer writer(folder / "a.gguf");
  GgufWriter expected;
  const auto key = [&](std::string_view name, auto value) {
    writer.key(name, value);
    expected.key(name, value);
  };
  const auto array = [&]<typename T>(std::string_view name, const std::vector<T>& values) {
    writer.array(name, std::span<const T>(values));
    expected.array(name, values);
  };
  key("u8", uint8_t{255});
  key("i8", int8_t{-1});
  key("u16", uint16_t{65535});
  key("i16", int16_t{-2});
  key("u32", 4294967295u);
  key("i32", -3);
  key("u64", uint64_t{1} << 40);
  key("i64", int64_t{-4});
  key("f32", 0.5f);
  key("f64", 0.1);
  key("yes", true);
  key("text", "h\xc3\xa9llo");
  array("words", std::vector<std::string>{"a", "", "bc"});
  array("numbers", std::vector<float>{1.0f, -2.5f});
  array("none", std::vector<int32_t>{});
  const std::vector<float> odd = counting(5), matrix = counting(6);
  const Bytes blocks(row_bytes(DType::kQ4_0, 64) * 3, std::byte{7});
  writer.tensor("odd", DType::kF32, {5});
  writer.tensor("blocks", DType::kQ4_0, {64, 3});
  writer.tensor("matrix", DType::kF32, {2, 3});
  expected.tensor("odd", {5}, odd).tensor("blocks", DType::kQ4_0, {64, 3}, blocks);
  expected.tensor("matrix", {2, 3}, matrix);
  const uint64_t announced = writer.file_bytes();
  writer.begin_data();
  // Cut where no tensor ends.
  Bytes data;
  append_bytes(data, odd.data(), odd.size() * sizeof(float));
  append_bytes(data, blocks.data(), blocks.size());
  append_bytes(data, matrix.data(), matrix.size() * sizeof(float));
  for (size_t at = 0; at < data.size(); at += 17) {
    writer.write(std::span(data).subspan(at, std::min<size_t>(17, data.size() - at)));
  }
  writer.commit();
  Bytes want = expected.bytes();
  want.resize((want.size() + 31) / 32 * 32);  // the last tensor is padded too, as by ggml's own tools
  CHECK(file_bytes(folder / "a.gguf") == want);
  CHECK(fs::file_size(folder / "a.gguf") == announced);
  CHECK_FALSE(fs::exists(folder / "a.gguf.part"));
}

TEST_CASE("another alignment is a key and moves the data") {
  const TempFolder folder;
  gguf::Writer writer(folder / "a.gguf", {.alignment = 4096});
  writer.tensor("a", DType::kF32, {3});
  writer.tensor("b", DType::kF32, {3});
  writer.begin_data();
  writer.write(bytes_of(counting(6)));
  writer.commit();
  const ModelFile file = ModelFile::open(folder / "a.gguf");
  CHECK(file.get_int("general.alignment") == 4096);
  CHECK(file.find_tensor("b")->data - file.find_tensor("a")->data == 4096);
  CHECK(std::memcmp(file.find_tensor("b")->data, &counting(6)[3], 12) == 0);
}

TEST_CASE("pieces larger than the buffer come out whole") {
  const TempFolder folder;
  const std::vector<float> big = counting(3'000'000);  // 12 MB
  gguf::Writer writer(folder / "a.gguf");
  writer.tensor("small", DType::kF32, {1});
  writer.tensor("big", DType::kF32, {3'000'000});
  writer.tensor("last", DType::kF32, {1});
  writer.begin_data();
  writer.write(std::as_bytes(std::span(big).first(1)));
  writer.write(std::as_bytes(std::span(big)));
  writer.write(std::as_bytes(std::span(big).last(1)));
  writer.commit();
  const ModelFile file = ModelFile::open(folder / "a.gguf");
  CHECK(std::memcmp(file.find_tensor("small")->data, big.data(), 4) == 0);
  CHECK(std::memcmp(file.find_tensor("big")->data, big.data(), big.size() * 4) == 0);
  CHECK(std::memcmp(file.find_tensor("last")->data, &big.back(), 4) == 0);
}

TEST_CASE("the caller chooses the magic") {
  const TempFolder folder;
  write_small(folder / "a.gguf", {.magic = "PWRI"});
  CHECK(std::memcmp(file_bytes(folder / "a.gguf").data(), "PWRI", 4) == 0);
}

TEST_CASE("an existing file is kept unless replacing it is allowed") {
  const TempFolder folder;
  write_bytes(folder / "a.gguf", Bytes(3));
  CHECK_THROWS_WITH(write_small(folder / "a.gguf"), ContainsSubstring("a.gguf: it exists already"));
  CHECK(file_bytes(folder / "a.gguf") == Bytes(3));
  write_small(folder / "a.gguf", {.replace = true});
  CHECK(ModelFile::open(folder / "a.gguf").tensors().size() == 1);
}

TEST_CASE("a pipe, or a link to one, is never replaced") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);  // like /dev/null, which root could replace
  CHECK_THROWS_WITH(write_small(folder / "pipe", {.replace = true}),
                    ContainsSubstring("pipe: it is not a plain file"));
  CHECK(fs::is_fifo(folder / "pipe"));
  fs::create_symlink(folder / "pipe", folder / "link");
  CHECK_THROWS_WITH(write_small(folder / "link", {.replace = true}), ContainsSubstring("not a plain file"));
}

TEST_CASE("a writer that gives up leaves the old file and nothing else") {
  const TempFolder folder;
  write_bytes(folder / "a.gguf", Bytes(3));
  {
    gguf::Writer writer(folder / "a.gguf", {.replace = true});
    writer.tensor("a", DType::kF32, {3});
    writer.begin_data();
    writer.write(bytes_of(counting(2)));
    CHECK(fs::exists(folder / "a.gguf.part"));
  }
  CHECK_FALSE(fs::exists(folder / "a.gguf.part"));
  CHECK(file_bytes(folder / "a.gguf") == Bytes(3));
}

TEST_CASE("a killed writer's remains do not disturb the next writer") {
  const TempFolder folder;
  write_bytes(folder / "a.gguf.part", Bytes(100'000));
  write_small(folder / "a.gguf");
  CHECK(fs::file_size(folder / "a.gguf") < 1000);
  CHECK(ModelFile::open(folder / "a.gguf").tensors().size() == 1);
}

TEST_CASE("a file that another program is writing is refused") {
  const TempFolder folder;
  gguf::Writer first(folder / "a.gguf");
  first.tensor("a", DType::kF32, {1});
  first.begin_data();
  gguf::Writer second(folder / "a.gguf");
  CHECK_THROWS_WITH(second.begin_data(), ContainsSubstring("another program is writing it"));
  first.write(bytes_of(counting(1)));
  first.commit();
  CHECK(ModelFile::open(folder / "a.gguf").tensors().size() == 1);
}

TEST_CASE("a failure to write is reported in one sentence") {
  const TempFolder folder;
  CHECK_THROWS_WITH(write_small(folder.path()), ContainsSubstring("it is a folder"));
  CHECK_THROWS_WITH(write_small(folder / "none/a.gguf"), ContainsSubstring("a.gguf: it cannot be written"));
  gguf::Writer writer(folder / "a.gguf");
  writer.tensor("a", DType::kF32, {int64_t{1} << 48});
  CHECK_THROWS_WITH(writer.begin_data(), ContainsSubstring("it takes 1,125,899,906,842,") &&
                                             ContainsSubstring("free; make room or write to another disk"));
  CHECK(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace hearth::test
