// Tensors saved by PyTorch: every element type, views, and a message for anything that is not one tensor.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "profiler/import/torch_tensor.h"
#include "tests/support/catch.h"
#include "tests/support/torch_file.h"

namespace hearth::test {
namespace {

using std::string_view_literals::operator""sv;

std::vector<double> read(const TorchFile& file) { return read_torch_vector(file.bytes(), "a.pt"); }

std::string refusal_of(const Bytes& bytes) {
  try {
    read_torch_vector(bytes, "a.pt");
  } catch (const ModelFileError& error) {
    return error.what();
  }
  return "(read)";
}

TorchFile three() { return TorchFile::of<int32_t>("IntStorage", {7, 0, 2147483647}); }

std::string refusal_of_pickle(std::string_view pickle) {
  TorchFile file = three();
  file.pickle = text_bytes(pickle);
  return refusal_of(file.bytes());
}

std::string refusal_after(const std::function<void(TorchFile&)>& change) {
  TorchFile file = three();
  change(file);
  return refusal_of(file.bytes());
}

TEST_CASE("every element type becomes doubles") {
  CHECK(read(three()) == std::vector<double>{7, 0, 2147483647});
  CHECK(read(TorchFile::of<int64_t>("LongStorage", {1, -1, int64_t{1} << 40})) ==
        std::vector<double>{1, -1, 1099511627776.0});
  CHECK(read(TorchFile::of<float>("FloatStorage", {0.5f, 3.0f})) == std::vector<double>{0.5, 3});
  CHECK(read(TorchFile::of<double>("DoubleStorage", {0.1})) == std::vector<double>{0.1});
  CHECK(read(TorchFile::of<uint16_t>("HalfStorage", {0x3c00, 0x4900})) == std::vector<double>{1, 10});
  CHECK(read(TorchFile::of<uint16_t>("BFloat16Storage", {0x3f80, 0x4120})) == std::vector<double>{1, 10});
  CHECK(read(TorchFile::of<int32_t>("IntStorage", {})).empty());
  const std::vector<double> odd = read(TorchFile::of<float>(
      "FloatStorage", {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}));
  CHECK(std::isinf(odd[0]));
  CHECK(std::isnan(odd[1]));
}

TEST_CASE("a view into a larger tensor is read as the view") {
  TorchFile file = TorchFile::of<int32_t>("IntStorage", {0, 1, 2, 3, 4, 5, 6, 7});
  file.offset = 4;
  file.shape = {4};
  CHECK(read(file) == std::vector<double>{4, 5, 6, 7});
  file.offset = 1;
  file.strides = {2};
  CHECK(read(file) == std::vector<double>{1, 3, 5, 7});
  file.strides = {0};
  CHECK(read(file) == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("a view beyond its storage is refused") {
  constexpr const char* kBeyond = "beyond the 3 stored";
  CHECK_THAT(refusal_after([](TorchFile& file) { file.offset = 1; }), ContainsSubstring(kBeyond));
  CHECK_THAT(refusal_after([](TorchFile& file) { file.strides = {2}; }), ContainsSubstring(kBeyond));
  CHECK_THAT(refusal_after([](TorchFile& file) { file.shape = {4}; }), ContainsSubstring(kBeyond));
  CHECK_THAT(refusal_after([](TorchFile& file) { file.strides = {2147483647}, file.offset = 2147483647; }),
             ContainsSubstring(kBeyond));
  CHECK_THAT(refusal_after([](TorchFile& file) { file.offset = -1; }), ContainsSubstring("whose offset"));
  CHECK_THAT(refusal_after([](TorchFile& file) { file.shape = {2000000}, file.strides = {0}; }),
             ContainsSubstring("it holds 2,000,000 elements, expected at most 1,048,576"));
}

TEST_CASE("a tensor that is not a vector of numbers is refused with its kind") {
  CHECK_THAT(refusal_after([](TorchFile& file) {
               file.shape = {1, 3}, file.strides = {3, 1};
             }),
             ContainsSubstring("a.pt: data.pkl holds a tensor of 2 dimensions, expected one"));
  CHECK_THAT(refusal_after([](TorchFile& file) { file.shape = {}, file.strides = {}; }),
             ContainsSubstring("a tensor of 0 dimensions"));
  CHECK_THAT(refusal_after([](TorchFile& file) { file.storage_type = "BoolStorage"; }),
             ContainsSubstring("its elements are a \"BoolStorage\", expected int32"));
  CHECK_THAT(refusal_after([](TorchFile& file) { file.elements.pop_back(); }),
             ContainsSubstring("\"counts/data/0\" has 11 bytes, expected 3 elements of 4 bytes"));
  CHECK_THAT(refusal_after([](TorchFile& file) { file.byte_order = "big"; }),
             ContainsSubstring("its byte order is \"big\""));
  TorchFile old = three();
  old.byte_order.clear();
  CHECK(read(old).size() == 3);
}

TEST_CASE("pickles of other objects are refused, and nothing in them is called") {
  CHECK_THAT(refusal_of_pickle("\x80\x02K\x07."sv), ContainsSubstring("holds a number, expected one tensor"));
  CHECK_THAT(refusal_of_pickle("\x80\x02}."sv), ContainsSubstring("holds a dict, expected one tensor"));
  CHECK_THAT(refusal_of_pickle("\x80\x02}q\0X\1\0\0\0aK\1s."sv),
             ContainsSubstring("holds a dict, expected one tensor"));
  CHECK_THAT(refusal_of_pickle("\x80\x02"
                               "cos\nsystem\nX\4\0\0\0true\x85R."sv),
             ContainsSubstring("holds an object made by \"os\\x0asystem\", expected one tensor"));
  CHECK_THAT(refusal_of_pickle("\x80\x02"
                               "ctorch._utils\n_rebuild_tensor_v2\n)R."sv),
             ContainsSubstring("whose storage is not as PyTorch writes it"));
  CHECK_THAT(refusal_of_pickle("\x80\x04."sv), ContainsSubstring("pickle protocol 4, expected 2"));
}

TEST_CASE("damaged pickles are refused") {
  CHECK_THAT(refusal_of_pickle("\x80\x02."sv), ContainsSubstring("takes more values than it has"));
  CHECK_THAT(refusal_of_pickle("\x80\x02)R."sv), ContainsSubstring("takes more values than it has"));
  CHECK_THAT(refusal_of_pickle("\x80\x02Nt."sv), ContainsSubstring("ends a tuple that it did not begin"));
  CHECK_THAT(refusal_of_pickle("\x80\x02h\1."sv),
             ContainsSubstring("recalls a value that it did not remember"));
  CHECK_THAT(refusal_of_pickle("\x80\x02q\1."sv),
             ContainsSubstring("remembers a value that it does not have"));
  CHECK_THAT(refusal_of_pickle("\x80\x02X\xff\xff\xff\xff."sv),
             ContainsSubstring("needs 4,294,967,295 bytes"));
  CHECK_THAT(refusal_of_pickle("\x80\x02"
                               "cos\nsystem"sv),
             ContainsSubstring("truncated or corrupt"));
  CHECK_THAT(refusal_of_pickle("\x80\x02\x8a\x09"
                               "123456789."sv),
             ContainsSubstring("holds a number of 9 bytes"));
  CHECK_THAT(refusal_of_pickle(std::string(70000, '(')), ContainsSubstring("data.pkl has 70,000 bytes"));
  // Doubling tuples, which would be 2^4000 values if they were unfolded.
  std::string doubling = "\x80\x02)";
  for (int i = 0; i < 4000; ++i) doubling += "q\1h\1\x86"sv;
  CHECK_THAT(refusal_of_pickle(doubling + "."), ContainsSubstring("holds a tuple, expected one tensor"));
}

TEST_CASE("long numbers are two's complement of any length up to eight bytes") {
  const std::string_view storage =
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nIntStorage\n"
      "X\1\0\0\0000X\3\0\0\0cpu\x8a\3\3\0\0tQ\x8a\0\x8a\1\2\x85\x8a\2\1\0\x85\x89NtR."sv;
  TorchFile file = three();
  file.pickle = text_bytes(storage);
  CHECK(read(file) == std::vector<double>{7, 0});
  std::string elsewhere(storage);
  elsewhere.replace(elsewhere.find("\1\0\0\0000"sv), 5, "\1\0\0\0009"sv);
  CHECK_THAT(refusal_of_pickle(elsewhere),
             ContainsSubstring("its entry \"counts/data/9\" is missing, expected 3 elements of 4 bytes"));
  std::string negative(storage);
  negative.replace(negative.find("\x8a\1\2"sv), 3, "\x8a\1\xfe"sv);
  CHECK_THAT(refusal_of_pickle(negative), ContainsSubstring("whose shape is not as PyTorch writes it"));
}

TEST_CASE("files that are not PyTorch's archives are refused with what they are") {
  CHECK_THAT(refusal_of(text_bytes("\x80\x02\x8a\x0a"sv)),
             ContainsSubstring("as PyTorch before 1.6 writes tensors"));
  CHECK_THAT(refusal_of(text_bytes("<html>"sv)),
             ContainsSubstring("it begins with \"<htm\", expected a zip archive"));
  CHECK_THAT(refusal_of({}), ContainsSubstring("it begins with \"\""));
  CHECK_THAT(refusal_of(zip_archive({{"a.txt", text_bytes("a")}})), ContainsSubstring("without data.pkl"));
  CHECK_THAT(refusal_of(zip_archive({{"a/data.pkl", text_bytes("a")}}, 8)),
             ContainsSubstring("zip entry \"a/data.pkl\" is compressed or encrypted"));
  CHECK_THAT(refusal_of(zip_archive({{"a/data.pkl", {}}})), ContainsSubstring("truncated or corrupt"));
}

TEST_CASE("a file cut anywhere or with any byte changed is read or refused, and never crashes") {
  const Bytes whole = three().bytes();
  REQUIRE(refusal_of(whole) == "(read)");
  // Copies that end where their heap block ends, so that AddressSanitizer finds any read beyond it.
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::unique_ptr<std::byte[]> copy = std::make_unique<std::byte[]>(size);
    std::memcpy(copy.get(), whole.data(), size);
    CHECK_THROWS_AS(read_torch_vector({copy.get(), size}, "a.pt"), ModelFileError);
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
      Bytes changed = whole;
      changed[at] ^= static_cast<std::byte>(flip);
      const std::string result = refusal_of(changed);
      CHECK((result == "(read)" || result.starts_with("a.pt: ")));
    }
  }
}

}  // namespace
}  // namespace hearth::test
