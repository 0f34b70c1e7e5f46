// safetensors' header: what is read, and one message for each way in which it can be wrong.
#include "profiler/convert/safetensors.h"

#include <cstring>

#include "engine/model/model_file.h"
#include "tests/support/catch.h"

namespace hearth::convert {
namespace {

const std::string kLabel = "m.safetensors";

std::vector<std::byte> file_of(const std::string& header, size_t n_data, uint64_t length_off_by = 0) {
  std::vector<std::byte> bytes(8 + header.size() + n_data);
  const uint64_t length = header.size() + length_off_by;
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (size_t i = 0; i < n_data; ++i) bytes[8 + header.size() + i] = static_cast<std::byte>(i);
  return bytes;
}

void check_refused(const std::vector<std::byte>& bytes, const std::string& part) {
  INFO(part);
  CHECK_THROWS_AS(read_safetensors(bytes, kLabel), ModelFileError);
  CHECK_THROWS_WITH(read_safetensors(bytes, kLabel), ContainsSubstring(part));
}

}  // namespace

TEST_CASE("safetensors: tensors come in the order of their bytes", "[safetensors]") {
  const auto bytes = file_of(R"({"__metadata__":{"format":"pt"},
    "b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                             16);
  const std::vector<StoredTensor> tensors = read_safetensors(bytes, kLabel);
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[0].type == ElementType::kF32);
  CHECK(tensors[0].n_elements() == 1);
  CHECK(tensors[1].shape == std::vector<int64_t>{2, 3});
  CHECK(tensors[1].bytes.size() == 12);
  CHECK(tensors[1].bytes[0] == std::byte{4});
}

TEST_CASE("safetensors: damaged headers are refused", "[safetensors]") {
  check_refused({}, "too few");
  check_refused(file_of("{}", 0, 1), "its header would have 3 bytes");
  check_refused(file_of("{}", 0, uint64_t{1} << 62), "cut off");
  check_refused(file_of("[]", 0), "not a JSON object");
  check_refused(file_of("{\"a\"", 0), "not a JSON object");
  const auto one = [](const std::string& entry, size_t n_data) {
    return file_of("{\"a\":" + entry + "}", n_data);
  };
  check_refused(one("1", 4), "lacks its type");
  check_refused(one(R"({"dtype":"F32","shape":[1]})", 4), "lacks its type");
  check_refused(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4), "impossible shape");
  check_refused(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})", 4),
                "impossible shape");
  check_refused(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", 4), "no two offsets");
  check_refused(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4), "ends at byte 0");
  check_refused(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,5]})", 4), "ends at byte 5 of 4");
  check_refused(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4), "has 4 bytes, expected 8");
}

TEST_CASE("safetensors: tensors do not share bytes", "[safetensors]") {
  check_refused(
      file_of(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
          4),
      "partly in the bytes of another");
}

}  // namespace hearth::convert
