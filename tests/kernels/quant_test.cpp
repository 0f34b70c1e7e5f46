// Dequantization compared with golden blocks that Python's gguf package made (quant_golden.py), and the
// 16-bit floats compared with their definition.
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "kernels/quant/dequantize.h"
#include "kernels/quant/half.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

template <class T>
std::vector<T> read_array(std::ifstream& file, size_t n) {
  std::vector<T> values(n);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(n * sizeof(T)));
  REQUIRE(file.good());
  return values;
}

}  // namespace

TEST_CASE("dequantized golden blocks have the bits of the gguf package") {
  std::ifstream file(hearth::testing::source_dir() + "/tests/data/quant_golden.bin", std::ios::binary);
  REQUIRE(file.is_open());
  std::set<DType> seen;
  while (file.peek() != std::ifstream::traits_type::eof()) {
    const std::vector<uint32_t> header = read_array<uint32_t>(file, 2);  // type number, elements
    const auto type = dtype_from_gguf(header[0]);
    REQUIRE(type.has_value());
    const int64_t n = header[1];
    const std::vector<std::byte> bytes = read_array<std::byte>(file, row_bytes(*type, n));
    const std::vector<float> expected = read_array<float>(file, header[1]);
    std::vector<float> out(header[1]);
    dequantize_row(*type, bytes.data(), n, out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      INFO(dtype_info(*type).name << " element " << i << ": " << out[i] << ", expected " << expected[i]);
      REQUIRE(std::memcmp(&out[i], &expected[i], sizeof(float)) == 0);
    }
    seen.insert(*type);
  }
  CHECK(seen.size() == static_cast<size_t>(kDTypeCount));
}

TEST_CASE("halves are widened exactly and come back unchanged") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const int exponent = (half >> 10) & 31, fraction = half & 0x3ff;
    const float value = float_from_half(half);
    if (exponent == 31) {
      REQUIRE((fraction == 0 ? std::isinf(value) : std::isnan(value)));
    } else {
      const double size =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      REQUIRE(double{value} == ((half & 0x8000) != 0 ? -size : size));
    }
    REQUIRE(std::signbit(value) == ((half & 0x8000) != 0));
    if (!std::isnan(value)) REQUIRE(half_from_float(value) == half);
  }
}

TEST_CASE("floats become the nearest half, ties to even") {
  for (uint32_t bits = 0; bits < 0x7bff;
       ++bits) {  // every finite half except the largest, with its upper neighbor
    const float low = float_from_half(static_cast<uint16_t>(bits));
    const float high = float_from_half(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    REQUIRE(half_from_float(middle) == bits + (bits & 1));
    REQUIRE(half_from_float(std::nextafter(middle, 0.0f)) == bits);
    REQUIRE(half_from_float(-std::nextafter(middle, high)) == (0x8000 | (bits + 1)));
  }
  CHECK(half_from_float(65519.99f) == 0x7bff);
  CHECK(half_from_float(65520.0f) == 0x7c00);
  CHECK(half_from_float(-1e30f) == 0xfc00);
  CHECK(half_from_float(1e-30f) == 0);
  CHECK(std::isnan(float_from_half(half_from_float(std::numeric_limits<float>::quiet_NaN()))));
}

TEST_CASE("an empty row dequantizes to nothing") {
  float untouched = 5.0f;
  for (DType type : all_types()) dequantize_row(type, nullptr, 0, &untouched);
  CHECK(untouched == 5.0f);
}

}  // namespace hearth::test
