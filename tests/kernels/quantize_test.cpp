// quantize_row alone: round trips, and rows that a scale cannot describe. test_quantize_oracle.py compares
// its bits with Python's gguf package.
#include "kernels/quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/quant/dequantize.h"
#include "kernels/quant/half.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

std::vector<float> round_trip(DType type, const std::vector<float>& x) {
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<std::byte> row(row_bytes(type, n));
  quantize_row(type, x.data(), n, row.data());
  std::vector<float> back(x.size());
  dequantize_row(type, row.data(), n, back.data());
  return back;
}

std::vector<float> normal(size_t n) {
  std::mt19937 engine(3);
  std::normal_distribution<float> distribution;
  std::vector<float> x(n);
  for (float& value : x) value = distribution(engine);
  return x;
}

TEST_CASE("quantized rows come back within half a step") {
  struct Case {
    DType type;
    // number of steps that cover a block's range, from the negative to the positive extreme or from min to
    // max
    float steps;
  };
  const Case cases[] = {
      {DType::kQ4_0, 16}, {DType::kQ4_1, 15}, {DType::kQ5_0, 32}, {DType::kQ5_1, 31}, {DType::kQ8_0, 254}};
  const std::vector<float> x = normal(32 * 64);
  for (const Case& c : cases) {
    CAPTURE(dtype_info(c.type).name);
    REQUIRE(can_quantize(c.type));
    const std::vector<float> back = round_trip(c.type, x);
    for (size_t block = 0; block < x.size(); block += 32) {
      float extreme = 0.0f;
      for (size_t i = block; i < block + 32; ++i) extreme = std::max(extreme, std::fabs(x[i]));
      // A whole step if the top code is missing (Q4_0, Q5_0), and what the scale loses as a half.
      const float step = 2.0f * extreme / c.steps;
      for (size_t i = block; i < block + 32; ++i) CHECK(std::fabs(back[i] - x[i]) <= 1.01f * step);
    }
  }
}

TEST_CASE("plain types keep the values they can hold") {
  const std::vector<float> x = {0.0f, -1.5f, 0.25f, 1024.0f};
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) CHECK(round_trip(type, x) == x);
}

TEST_CASE("rows of zeros, of tiny values and of one value come back") {
  constexpr float kValue = 127.0f / 64.0f;  // its scale is exactly a half for every type
  for (int type = 0; type < kDTypeCount; ++type) {
    if (!can_quantize(static_cast<DType>(type))) continue;
    CAPTURE(dtype_info(static_cast<DType>(type)).name);
    CHECK(round_trip(static_cast<DType>(type), std::vector<float>(32, 0.0f)) == std::vector<float>(32, 0.0f));
    // its scale is a power of two, and 3/2 is the nearest value
    if (static_cast<DType>(type) == DType::kMXFP4) {
      CHECK(round_trip(DType::kMXFP4, std::vector<float>(32, kValue)) == std::vector<float>(32, 1.5f));
      CHECK(round_trip(DType::kMXFP4, std::vector<float>(32, -0.75f)) == std::vector<float>(32, -0.75f));
      continue;
    }
    CHECK(round_trip(static_cast<DType>(type), std::vector<float>(32, kValue)) ==
          std::vector<float>(32, kValue));
    for (const float value : round_trip(static_cast<DType>(type), std::vector<float>(32, 1e-42f))) {
      CHECK(std::fabs(value) <= 1e-42f);
    }
  }
}

TEST_CASE("bfloat16 rounds to nearest, ties to even") {
  CHECK(bfloat16_from_float(1.0f) == 0x3f80);
  CHECK(bfloat16_from_float(1.0f + 0x1p-8f) == 0x3f80);       // a tie, to even
  CHECK(bfloat16_from_float(1.0f + 0x1.8p-7f) == 0x3f82);     // a tie, to even
  CHECK(bfloat16_from_float(1.0f + 0x1.0002p-8f) == 0x3f81);  // just above a tie
  CHECK(bfloat16_from_float(-3.4e38f) == 0xff80);             // beyond the largest: infinity
  CHECK(std::isnan(float_from_bfloat16(bfloat16_from_float(std::nanf("")))));
}

}  // namespace
}  // namespace hearth::test
