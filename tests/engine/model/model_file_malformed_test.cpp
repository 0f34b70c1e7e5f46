// ModelFile with files that are no model, or damaged ones: each gets one message, and none causes a crash, a
// hang or an allocation for absurd claims.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/gguf/part.h"
#include "engine/model/model_file.h"
#include "kernels/base/file_error.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/read_everything.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

std::string refusal_of(const fs::path& path) {
  try {
    ModelFile::open(path);
  } catch (const ModelFileError& error) {
    return error.what();
  }
  return "(opened)";
}

std::string refusal_of(const GgufWriter& writer) {
  const TempFolder folder;
  writer.write(folder / "m.gguf");
  return refusal_of(folder / "m.gguf");
}

std::string refusal_of_text(std::string_view content) {
  const TempFolder folder;
  write_bytes(folder / "m.gguf", std::as_bytes(std::span(content.data(), content.size())));
  return refusal_of(folder / "m.gguf");
}

// Parses a copy that ends where the heap block ends, so that AddressSanitizer finds any read beyond it.
bool parses(const Bytes& bytes, size_t size) {
  const std::unique_ptr<std::byte[]> copy = std::make_unique<std::byte[]>(size);
  std::memcpy(copy.get(), bytes.data(), size);
  try {
    const gguf::Part part = gguf::parse_part({copy.get(), size}, "m.gguf");
    gguf::order_tensors(part.tensors, "m.gguf");
    return true;
  } catch (const ModelFileError& error) {
    CHECK(std::string_view(error.what()).starts_with("m.gguf: "));
    return false;
  }
}

// A file with every kind of content, small enough to damage at every byte.
Bytes small_file() {
  GgufWriter writer;
  writer.key("general.architecture", "llama").alignment(16);
  writer.key("u8", uint8_t{1}).key("i64", int64_t{-1}).key("f32", 0.5f).key("yes", true);
  writer.array("texts", std::vector<std::string>{"a", "bc", ""}).array("ints", std::vector<int32_t>{1, 2});
  writer.array("bools", std::vector<bool>{true, false});
  writer.tensor("w", DType::kQ4_0, {32, 2}, Bytes(36)).tensor("b", {2, 1, 2}, {1, 2, 3, 4});
  return writer.bytes();
}

TEST_CASE("paths that are no regular file are refused at once") {
  const TempFolder folder;
  CHECK(refusal_of(folder / "gone.gguf") ==
        (folder / "gone.gguf").string() + ": there is no such file; check the path");
  CHECK_THAT(refusal_of(folder.path()), ContainsSubstring("it is a directory, expected a GGUF model file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(refusal_of(folder / "pipe"), ContainsSubstring("it is a pipe"));
  CHECK_THAT(refusal_of("/dev/zero"), ContainsSubstring("/dev/zero: it is a device"));
  CHECK_THAT(refusal_of("/dev/null"), ContainsSubstring("it is a device"));
  write_bytes(folder / "empty", {});
  CHECK_THAT(refusal_of(folder / "empty"), ContainsSubstring("it is empty (0 bytes)"));
  CHECK_THAT(refusal_of(folder / "empty/below"), ContainsSubstring("no such file"));
  CHECK_THAT(refusal_of(""), ContainsSubstring("no such file"));
  fs::create_symlink("loop", folder / "loop");
  CHECK_THAT(refusal_of(folder / "loop"), ContainsSubstring("it cannot be opened ("));
  fs::create_symlink("pipe", folder / "link");
  CHECK_THAT(refusal_of(folder / "link"), ContainsSubstring("it is a pipe"));
}

TEST_CASE("a socket is refused") {
  const TempFolder folder;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(fd >= 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = (folder / "socket").string();
  REQUIRE(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK_THAT(refusal_of(path), ContainsSubstring("it is a socket"));
  ::close(fd);
}

TEST_CASE("a file that may not be read is refused") {
  const TempFolder folder;
  GgufWriter().write(folder / "m.gguf");
  fs::permissions(folder / "m.gguf", fs::perms::none);
  // root can read everything, so change to nobody for the moment.
  const uid_t user = ::geteuid();
  constexpr uid_t kNobody = 65534;
  if (user == 0) REQUIRE(::seteuid(kNobody) == 0);
  const std::string refusal = refusal_of(folder / "m.gguf");
  if (user == 0) REQUIRE(::seteuid(user) == 0);
  CHECK_THAT(refusal, ContainsSubstring("it cannot be read (Permission denied); check the permissions"));
}

TEST_CASE("a GPU index of PowerInfer is not taken for a model") {
  const TempFolder folder;
  GgufWriter()
      .magic("PWRI")
      .key("general.architecture", "generic.gpu_index")
      .raw_tensor("blk.0.gpu_idx", 18, {64}, Bytes(256))
      .write(folder / "model.gguf.generated.gpuidx");
  CHECK_THROWS_WITH(ModelFile::open(folder / "model.gguf.generated.gpuidx"),
                    ContainsSubstring("PowerInfer's index of a model's neurons") &&
                        ContainsSubstring("give the model's own file"));
}

TEST_CASE("other formats are recognized") {
  using namespace std::string_view_literals;
  CHECK_THAT(refusal_of_text("Once upon a time\n"),
             ContainsSubstring("it is a text file, expected a GGUF model"));
  CHECK_THAT(refusal_of_text("\n <!DOCTYPE html><html>"), ContainsSubstring("a web page"));
  CHECK_THAT(refusal_of_text("version https://git-lfs.github.com/spec/v1\noid"),
             ContainsSubstring("git lfs pull"));
  CHECK_THAT(refusal_of_text("\x10\0\0\0\0\0\0\0{\"a\":1}          "sv),
             ContainsSubstring("a safetensors file"));
  CHECK_THAT(refusal_of_text("PK\x03\x04rest"), ContainsSubstring("a zip archive, as PyTorch"));
  CHECK_THAT(refusal_of_text("\x80\x02}q"), ContainsSubstring("a Python pickle"));
  CHECK_THAT(refusal_of_text("lmgg\x01\0\0\0"sv), ContainsSubstring("format ggml"));
  CHECK_THAT(refusal_of_text("tjgg\x03\0\0\0"sv), ContainsSubstring("format ggjt"));
  CHECK_THAT(refusal_of_text("\x1f\x8b\x08"), ContainsSubstring("a gzip archive"));
  CHECK_THAT(refusal_of_text(std::string(1000, '\0')), ContainsSubstring("a file of zeros"));
  CHECK_THAT(refusal_of_text(std::string(257, '\x01') + "ustar" + std::string(250, '\x01')),
             ContainsSubstring("a tar archive"));
  CHECK_THAT(refusal_of_text("\x01\x1b[2Jx"),
             ContainsSubstring(R"(it begins with "\x01\x1b[2", expected "GGUF")"));
}

TEST_CASE("the header is checked") {
  CHECK_THAT(refusal_of(GgufWriter().version(1)), ContainsSubstring("GGUF version 1, expected 2 or 3"));
  CHECK_THAT(refusal_of(GgufWriter().version(0)), ContainsSubstring("GGUF version 0, expected 2 or 3"));
  CHECK_THAT(refusal_of(GgufWriter().version(4)), ContainsSubstring("GGUF version 4, expected 2 or 3"));
  CHECK_THAT(refusal_of(GgufWriter().version(0x03000000)), ContainsSubstring("a big-endian GGUF file"));
  CHECK_THAT(refusal_of_text("GGUF"),
             ContainsSubstring("header needs 4 bytes at byte 4, but the file ends at byte 4"));
  const uint64_t absurd = GENERATE(uint64_t{1}, uint64_t{1} << 31, std::numeric_limits<uint64_t>::max());
  CHECK_THAT(refusal_of(GgufWriter().claim_keys(absurd)), ContainsSubstring("keys, expected at most 0"));
  CHECK_THAT(refusal_of(GgufWriter().claim_tensors(absurd)),
             ContainsSubstring("tensors, expected at most 0"));
}

TEST_CASE("absurd claims are refused even if the file seems large enough for them") {
  const TempFolder folder;
  const fs::path path = folder / "sparse.gguf";
  constexpr uint64_t kClaim = uint64_t{1} << 33;
  Bytes array;
  append_number(array, uint32_t{4});
  append_number(array, kClaim);
  GgufWriter writer;
  std::string_view expected;
  SECTION("keys") {
    writer.claim_keys(kClaim);
    expected = "claims 8,589,934,592 keys, expected at most 65,536";
  }
  SECTION("tensors") {
    writer.claim_tensors(kClaim);
    expected = "claims 8,589,934,592 tensors, expected at most 262,144";
  }
  SECTION("elements") {
    writer.raw_key("big", 9, array);
    expected = "key \"big\" claims an array of 8,589,934,592 elements, expected at most 16,777,216";
  }
  writer.write(path);
  std::error_code error;
  fs::resize_file(path, uint64_t{1} << 38, error);  // 256 GiB of holes
  if (error) {
    testing::skip("the temporary folder takes no sparse files: " + error.message());
    return;
  }
  CHECK_THAT(refusal_of(path), ContainsSubstring(std::string(expected)));
}

TEST_CASE("keys are checked") {
  const Bytes one_byte(1);
  CHECK_THAT(refusal_of(GgufWriter().key("a", 1).key("b", 2).key("a", 3)),
             ContainsSubstring("key \"a\" occurs twice, expected once"));
  CHECK_THAT(refusal_of(GgufWriter().key("", 1)), ContainsSubstring("key number 1 has an empty name"));
  CHECK_THAT(refusal_of(GgufWriter().raw_key("a", 13, one_byte)),
             ContainsSubstring("key \"a\" has value type 13, expected 0 to 12"));
  // One key too many: the tensor's entry is read as a key, and the rest is not a tensor.
  CHECK_THAT(refusal_of(GgufWriter().key("a", 1).claim_keys(2).raw_tensor("t", 0, {1}, Bytes(64))),
             ContainsSubstring("tensor number 1 has an empty name: the file is corrupt"));
  Bytes text;
  append_number(text, std::numeric_limits<uint64_t>::max());
  CHECK_THAT(
      refusal_of(GgufWriter().raw_key("a", 8, text)),
      ContainsSubstring(
          "key \"a\" needs 18,446,744,073,709,551,615 bytes at byte 45, but the file ends at byte 45"));
  const Bytes two(1, std::byte{2});
  CHECK_THAT(refusal_of(GgufWriter().raw_key("a", 7, two)),
             ContainsSubstring("a boolean with value 2, expected 0 or 1"));
}

TEST_CASE("arrays are checked") {
  const auto array = [](uint32_t element, uint64_t count, size_t n_bytes) {
    Bytes payload;
    append_number(payload, element);
    append_number(payload, count);
    payload.resize(payload.size() + n_bytes, std::byte{2});
    return GgufWriter().raw_key("a", 9, payload);
  };
  CHECK_THAT(refusal_of(array(99, 1, 8)), ContainsSubstring("key \"a\" has value type 99"));
  CHECK_THAT(refusal_of(array(4, 3, 8)),
             ContainsSubstring("claims an array of 3 elements, expected at most 2"));
  CHECK_THAT(refusal_of(array(8, 2, 15)),
             ContainsSubstring("claims an array of 2 elements, expected at most 1"));
  CHECK_THAT(refusal_of(array(9, 2, 23)),
             ContainsSubstring("claims an array of 2 elements, expected at most 1"));
  CHECK_THAT(refusal_of(array(0, uint64_t{1} << 63, 8)), ContainsSubstring("expected at most 8"));
  CHECK_THAT(refusal_of(array(12, (uint64_t{1} << 61) + 1, 8)), ContainsSubstring("expected at most 1"));
  CHECK_THAT(refusal_of(array(7, 1, 1)), ContainsSubstring("a boolean with value 2"));
  CHECK_THAT(refusal_of(array(8, 1, 8)), ContainsSubstring("key \"a\" needs 144,680,345,676,153,346 bytes"));

  // Nested arrays: each level has one element, the innermost none.
  const auto nested = [](int depth) {
    Bytes payload;
    for (int level = 1; level < depth; ++level) {
      append_number(payload, uint32_t{9});
      append_number(payload, uint64_t{1});
    }
    append_number(payload, uint32_t{4});
    append_number(payload, uint64_t{0});
    return GgufWriter().raw_key("a", 9, payload);
  };
  CHECK(refusal_of(nested(1)) == "(opened)");
  CHECK(refusal_of(nested(4)) == "(opened)");
  CHECK_THAT(refusal_of(nested(5)), ContainsSubstring("nests arrays more than 4 deep"));
  CHECK_THAT(refusal_of(nested(100000)), ContainsSubstring("nests arrays more than 4 deep"));
}

TEST_CASE("the alignment is checked") {
  const uint32_t alignment = GENERATE(0u, 1u, 4u, 24u, 33u, 4194304u, 0x80000000u);
  GgufWriter writer;
  writer.key("general.alignment", alignment).tensor("t", {1}, {1.0f});
  CHECK_THAT(refusal_of(writer),
             ContainsSubstring("key \"general.alignment\" holds " + std::to_string(alignment) +
                               ", expected a power of two from 8"));
  CHECK_THAT(refusal_of(GgufWriter().key("general.alignment", "32")),
             ContainsSubstring("expected a power of two"));
  CHECK_THAT(refusal_of(GgufWriter().key("general.alignment", -32)),
             ContainsSubstring("expected a power of two"));
}

TEST_CASE("tensors are checked") {
  const Bytes data(64);
  constexpr uint64_t kHuge = uint64_t{1} << 62;
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const auto with = [&](uint32_t type, const std::vector<uint64_t>& dims) {
    return refusal_of(GgufWriter().raw_tensor("t", type, dims, data));
  };
  CHECK_THAT(with(0, {}), ContainsSubstring("tensor \"t\" has 0 dimensions, expected 1 to 4"));
  CHECK_THAT(with(0, {1, 1, 1, 1, 1}), ContainsSubstring("has 5 dimensions"));
  CHECK_THAT(with(0, {4, 0}), ContainsSubstring("has size 0 in dimension 1, expected at least 1"));
  CHECK_THAT(with(0, {kMax}), ContainsSubstring("fewer than 2^63 elements"));
  CHECK_THAT(with(0, {kHuge, 2}), ContainsSubstring("in dimension 1"));
  CHECK_THAT(with(0, {1, kHuge, 1, 4}), ContainsSubstring("in dimension 3"));
  CHECK_THAT(with(0, {kHuge}), ContainsSubstring("more than 2^64 bytes"));
  CHECK_THAT(with(0, {17}), ContainsSubstring("tensor \"t\" of 68 bytes") && ContainsSubstring("truncated"));
  CHECK_THAT(
      with(2, {33}),
      ContainsSubstring("of type Q4_0 has shape [33], expected a first size that is a multiple of 32"));
  CHECK_THAT(with(12, {128, 2}),
             ContainsSubstring("of type Q4_K has shape [128,2]") && ContainsSubstring("of 256"));
  CHECK_THAT(with(41, {128}), ContainsSubstring("tensor \"t\" has type 41 (Q1_0), which is not supported"));
  CHECK_THAT(with(15, {256}), ContainsSubstring("type 15 (Q8_K)"));
  CHECK_THAT(with(24, {256}), ContainsSubstring("type 24 (I8)"));
  CHECK_THAT(with(4000000000u, {32}),
             ContainsSubstring("has type 4000000000, which is not supported, expected one of F32"));
  CHECK_THAT(refusal_of(GgufWriter().tensor("", {1}, {1.0f})),
             ContainsSubstring("tensor number 1 has an empty name"));
  CHECK_THAT(refusal_of(GgufWriter().tensor("t", {1}, {1.0f}).tensor("t", {1}, {1.0f})),
             ContainsSubstring("tensor \"t\" occurs twice, expected once"));
}

TEST_CASE("offsets of tensor data are checked") {
  const Bytes data(64);
  const auto at = [&](uint64_t offset) {
    return refusal_of(GgufWriter().raw_tensor("a", 0, {16}, data).raw_tensor("b", 0, {16}, data, offset));
  };
  CHECK(at(64) == "(opened)");
  CHECK_THAT(at(65), ContainsSubstring("tensor \"b\" has its data at offset 65, expected a multiple of 32"));
  CHECK_THAT(
      at(96),
      ContainsSubstring("tensor \"b\" of 64 bytes lies at byte 96 of the tensor data, but the file has 128"));
  CHECK_THAT(at(std::numeric_limits<uint64_t>::max() - 31),
             ContainsSubstring("tensor \"b\" of 64 bytes lies at byte"));
  CHECK_THAT(at(32), ContainsSubstring("the data of tensors \"a\" and \"b\" overlap"));
  CHECK_THAT(at(0), ContainsSubstring("overlap"));
}

TEST_CASE("hostile names do not reach the terminal") {
  const std::string refusal =
      refusal_of(GgufWriter().key("\x1b[31m\"\n\xff\xc3\xa9", 1).key("\x1b[31m\"\n\xff\xc3\xa9", 1));
  CHECK_THAT(refusal, ContainsSubstring("key \"\\x1b[31m\\x22\\x0a\\xff\xc3\xa9\" occurs twice"));
  const std::string longest(100000, 'k');
  CHECK(refusal_of(GgufWriter().key(longest, 1).key(longest, 1)).size() < 400);
  using file_error::quoted;
  CHECK(quoted("\xc0\xaf") == R"("\xc0\xaf")");                  // overlong
  CHECK(quoted("\xed\xa0\x80") == R"("\xed\xa0\x80")");          // surrogate
  CHECK(quoted("\xc2\x85") == R"("\xc2\x85")");                  // C1 control
  CHECK(quoted("\xf4\x90\x80\x80") == R"("\xf4\x90\x80\x80")");  // past U+10FFFF
  CHECK(quoted("\xf0\x9f\x98\x80\xe2\x96") == "\"\xf0\x9f\x98\x80\\xe2\\x96\"");
}

TEST_CASE("a file cut at any byte is refused") {
  const TempFolder folder;
  const Bytes whole = small_file();
  const fs::path path = folder / "m.gguf";
  write_bytes(path, whole);
  CHECK(refusal_of(path) == "(opened)");
  CHECK(parses(whole, whole.size()));
  for (size_t size = whole.size(); size-- > 0;) {
    CAPTURE(size);
    fs::resize_file(path, size);
    CHECK_THAT(refusal_of(path), ContainsSubstring(path.string() + ": "));
    REQUIRE_FALSE(parses(whole, size));
  }
}

TEST_CASE("a file damaged at any byte opens or is refused") {
  const TempFolder folder;
  Bytes bytes = small_file();
  const fs::path path = folder / "m.gguf";
  size_t opened = 0;
  size_t refused = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    CAPTURE(i);
    const std::byte good = bytes[i];
    for (const std::byte bad : {good ^ std::byte{0xff}, good ^ std::byte{1}, good ^ std::byte{0x80},
                                std::byte{0}, std::byte{0x7f}}) {
      bytes[i] = bad;
      if (!parses(bytes, bytes.size())) {
        ++refused;
        continue;
      }
      ++opened;
      write_bytes(path, bytes);
      // ModelFile may still refuse it, for example for a damaged split.count.
      try {
        CHECK(read_everything(ModelFile::open(path)) > 0);
      } catch (const ModelFileError&) {
        ++refused;
      }
    }
    bytes[i] = good;
  }
  CHECK(opened > 100);
  CHECK(refused > 100);
}

}  // namespace
}  // namespace hearth::test
