// The matmul kernels of every ISA that this machine runs, compared with a double reference, with each other,
// and with themselves on parts.
//
// Tolerances. e = 2^-24 is float32's rounding error.
//   quantized types, compared with doubles of the same quantized activations: integer sums are exact. A
//     product is rounded at most 5 times on its way to a span's term, and once in each of the n sums of
//     terms. Each rounding is at most e times the sum M of absolute products. So |error| <= (n + 6) * e * M,
//     where the sixth covers terms of second order.
//   plain floats: a lane adds n_cols / lanes products (at least 8 lanes), then 4 levels of a tree; the scalar
//     kernel rounds products too: |error| <= (n_cols / 8 + 6) * e * M.
//   across ISAs: quantized types always give the same bits, plain floats only results within the bound above.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/quant/decode.h"
#include "kernels/quant/dequantize.h"
#include "tests/kernels/matmul_run.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"
#include "tests/support/same_bits.h"

namespace hearth::test {
namespace {

constexpr double kEpsilon = 0x1p-24;

struct Reference {
  double value = 0.0;
  double magnitude = 0.0;  // M above
};

// The sum of |scale q x| + |min x| over the decoded blocks, to which rounding errors are relative.
double magnitude(const Matrix& weight, int64_t row, const std::vector<double>& x) {
  double sum = 0.0;
  visit_block_type(weight.dtype, [&]<class Block>() {
    Decoded<Block> block;
    for (int64_t column = 0; column < weight.n_cols; ++column) {
      const int i = static_cast<int>(column % Block::kElems);
      if (i == 0) decode_block<Block>(weight.row(row) + column / Block::kElems * sizeof(Block), block);
      const int g = i / Block::kGroup;
      sum += (std::fabs(double{block.scale[g]} * block.q[i]) + std::fabs(double{block.min[g]})) *
             std::fabs(x[static_cast<size_t>(column)]);
    }
  });
  return sum;
}

Reference reference(const Matrix& weight, int64_t row, const std::vector<double>& x) {
  std::vector<float> w(static_cast<size_t>(weight.n_cols));
  dequantize_row(weight.dtype, weight.row(row), weight.n_cols, w.data());
  Reference result;
  for (size_t i = 0; i < w.size(); ++i) {
    result.value += double{w[i]} * x[i];
    result.magnitude += std::fabs(double{w[i]} * x[i]);
  }
  if (uses_quantized_activations(weight.dtype)) result.magnitude = magnitude(weight, row, x);
  return result;
}

// The activations that a kernel of this type actually multiplies.
std::vector<double> seen_activations(const Matrix& weight, const std::vector<float>& x, int token,
                                     ActivationBits bits = ActivationBits::k15) {
  const int64_t n = weight.n_cols;
  std::vector<double> seen(x.begin() + token * n, x.begin() + (token + 1) * n);
  if (!uses_quantized_activations(weight.dtype)) return seen;
  QuantizedRows rows(matmul_kernels(Isa::kScalar, bits), {x.begin() + token * n, x.begin() + (token + 1) * n},
                     1, n, bits);
  const bool bytes = bits == ActivationBits::k8;
  const ActivationRow row = activation_row(rows.row(0), n, bytes ? 1 : 2);
  for (int64_t i = 0; i < n; ++i) {
    const int quant = bytes ? byte_at(row, i) : quant_at(Isa::kScalar, row, i);
    seen[static_cast<size_t>(i)] = double{row.scale[i / 32]} * quant;
  }
  return seen;
}

double tolerance(const Matrix& weight, double magnitude) {
  if (!uses_quantized_activations(weight.dtype))
    return (static_cast<double>(weight.n_cols) / 8 + 6) * kEpsilon * magnitude;
  return (static_cast<double>(weight.n_cols) / 32 + 6) * kEpsilon * magnitude;
}

std::vector<int64_t> column_counts(DType type) {
  const int64_t block = dtype_info(type).block_elems;
  if (block == 1) return {1, 3, 8, 15, 16, 17, 31, 33, 100, 256};
  if (block == 32) return {32, 64, 96, 256, 288, 544, 576};
  if (block == 64) return {64, 128, 256, 320, 576};
  return {256, 512, 768};
}

constexpr int kExtremeTokens = 6;

// Quants of +-32512 in four sign patterns, then 32384 = 256 * 127 - 128 and its negative, whose low bytes are
// at their limit too.
std::vector<float> extreme_activations(int64_t n_cols) {
  std::vector<float> x(static_cast<size_t>(n_cols) * kExtremeTokens);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t token = i / static_cast<size_t>(n_cols);
    const float low = i % 32 == 31 ? 1.0f : 32384.0f / 32512.0f;
    x[i] = token == 0   ? 1.0f
           : token == 1 ? -1.0f
           : token == 4 ? low
           : token == 5 ? -low
                        : ((i >> (token - 2)) % 2 == 0 ? 1.0f : -1.0f);
  }
  return x;
}

// Whether `isa` quantizes a row like the scalar kernel: equal quants, in its own order, and all other bytes
// equal.
bool same_quantized(Isa isa, const std::vector<float>& x) {
  const int64_t n_cols = static_cast<int64_t>(x.size());
  QuantizedRows expected(matmul_kernels(Isa::kScalar), x, 1, n_cols), rows(matmul_kernels(isa), x, 1, n_cols);
  const size_t quants = x.size() / 32 * kSpanBytes, used = x.size() / 32 * kBytesPerSpan;
  bool same = std::memcmp(rows.row(0) + quants, expected.row(0) + quants, used - quants) == 0;
  for (int64_t i = 0; i < n_cols; ++i) {
    same = same && quant_at(isa, activation_row(rows.row(0), n_cols), i) ==
                       quant_at(Isa::kScalar, activation_row(expected.row(0), n_cols), i);
  }
  return same;
}

}  // namespace

TEST_CASE("every ISA has its own loops") {
  for (DType type : all_types()) {
    const size_t i = static_cast<size_t>(type);
    for (const Isa isa : kAllIsas) {
      CHECK(matmul_kernels(isa).multiply[i] != nullptr);
      if (uses_quantized_activations(type)) {
        CHECK(matmul_kernels(isa, ActivationBits::k8).multiply[i] != matmul_kernels(isa).multiply[i]);
      }
      for (const Isa other : kAllIsas) {
        INFO(isa_name(isa) << ", " << isa_name(other));
        if (isa == other || !is_built(isa) || !is_built(other)) continue;
        CHECK(matmul_kernels(isa).multiply[i] != matmul_kernels(other).multiply[i]);
      }
    }
  }
}

TEST_CASE("products are those of a double reference on every ISA") {
  const ActivationBits bits = GENERATE(ActivationBits::k15, ActivationBits::k8);
  std::mt19937 rng(1);
  for (Isa isa : supported_isas()) {
    for (DType type : all_types()) {
      for (int64_t n_cols : column_counts(type)) {
        const OwnedMatrix weight = random_matrix(type, 19, n_cols, rng);
        const std::vector<float> x = random_activations(3 * n_cols, rng);
        const std::vector<float> out = multiply(isa, weight.view, x, 3, bits);
        for (int t = 0; t < 3; ++t) {
          const std::vector<double> seen = seen_activations(weight.view, x, t, bits);
          for (int64_t r = 0; r < 19; ++r) {
            const Reference expected = reference(weight.view, r, seen);
            INFO(isa_name(isa) << " " << dtype_info(type).name << " cols " << n_cols << " row " << r);
            const double error = std::fabs(double{out[static_cast<size_t>(t * 19 + r)]} - expected.value);
            REQUIRE(error <= tolerance(weight.view, expected.magnitude));
          }
        }
      }
    }
  }
}

TEST_CASE("quantized products have the same bits on every ISA") {
  const ActivationBits bits = GENERATE(ActivationBits::k15, ActivationBits::k8);
  std::mt19937 rng(2);
  for (DType type : quantized_types()) {
    for (int64_t n_cols : column_counts(type)) {
      for (int64_t n_rows : {1, 2, 7, 8, 9, 16, 17, 33}) {
        const OwnedMatrix weight = random_matrix(type, n_rows, n_cols, rng);
        const std::vector<float> x = random_activations(5 * n_cols, rng);
        const std::vector<float> expected = multiply(Isa::kScalar, weight.view, x, 5, bits);
        for (Isa isa : supported_isas()) {
          INFO(isa_name(isa) << " " << dtype_info(type).name << " " << n_rows << "x" << n_cols);
          REQUIRE(same_bits(multiply(isa, weight.view, x, 5, bits), expected));
        }
      }
    }
  }
}

TEST_CASE("float products have the same bits on every vector ISA") {
  std::mt19937 rng(13);
  std::vector<Isa> isas = supported_isas();
  isas.pop_back();  // scalar code has an order of its own
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t n_cols : {1, 7, 8, 9, 15, 16, 17, 24, 31, 33, 100, 256, 1000}) {
      for (int n_tokens : {1, 2, 7, 30}) {
        const OwnedMatrix weight = random_matrix(type, 19, n_cols, rng);
        const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
        for (Isa isa : isas) {
          INFO(isa_name(isa) << " " << dtype_info(type).name << " " << n_cols << " columns, " << n_tokens);
          REQUIRE(same_bits(multiply(isa, weight.view, x, n_tokens),
                            multiply(isas.front(), weight.view, x, n_tokens)));
        }
      }
    }
  }
}

TEST_CASE("extreme quants and activations neither saturate nor overflow") {
  const ActivationBits bits = GENERATE(ActivationBits::k15, ActivationBits::k8);
  // Every byte is 0x00, 0x7f, 0x80 or 0xff in turn; factors are 1; activations are at the ends of their range
  // in every sign pattern.
  for (DType type : quantized_types()) {
    const int64_t n_cols = 512;
    std::mt19937 rng(3);
    OwnedMatrix weight = random_matrix(type, 16, n_cols, rng);
    for (int pattern : {0x00, 0x0f, 0x7f, 0x80, 0xf0, 0xff}) {
      std::vector<std::byte> bytes = weight.bytes;
      const size_t block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
      for (size_t i = 0; i < bytes.size(); ++i) {
        // The middle of a block holds quants in every format; its ends hold the factors.
        if (i % block_bytes >= 4 && i % block_bytes + 14 < block_bytes)
          bytes[i] = static_cast<std::byte>(pattern);
      }
      Matrix view = weight.view;
      view.data = bytes.data();
      const std::vector<float> x = extreme_activations(n_cols);
      const std::vector<float> expected = multiply(Isa::kScalar, view, x, kExtremeTokens, bits);
      for (Isa isa : supported_isas()) {
        INFO(isa_name(isa) << " " << dtype_info(type).name << " pattern " << pattern);
        REQUIRE(same_bits(multiply(isa, view, x, kExtremeTokens, bits), expected));
      }
      for (int t = 0; t < kExtremeTokens; ++t) {
        const Reference exact = reference(view, 0, seen_activations(view, x, t, bits));
        INFO(dtype_info(type).name << " pattern " << pattern << " token " << t);
        REQUIRE(std::fabs(double{expected[static_cast<size_t>(t * 16)]} - exact.value) <=
                tolerance(view, exact.magnitude));
      }
    }
  }
}

TEST_CASE("the largest possible integer sums are exact on every ISA") {
  for (const int weight_quant : {127, -128}) {
    std::mt19937 rng(8);
    OwnedMatrix weight = random_matrix(DType::kQ8_0, 16, 32, rng);
    for (size_t i = 0; i < weight.bytes.size(); ++i) {
      const size_t at = i % 34;  // a half, 1.0 here, and 32 quants
      weight.bytes[i] = static_cast<std::byte>(at == 0 ? 0x00 : at == 1 ? 0x3c : weight_quant);
    }
    for (const float sign : {1.0f, -1.0f}) {
      for (Isa isa : supported_isas()) {
        for (int n_tokens : {1, 8}) {
          const std::vector<float> x(static_cast<size_t>(32 * n_tokens), sign);
          const float sum = static_cast<float>(32 * weight_quant * 32512) * sign;
          INFO(isa_name(isa) << " weight " << weight_quant << " sign " << sign << " tokens " << n_tokens);
          for (float value : multiply(isa, weight.view, x, n_tokens)) {
            REQUIRE(value == sum * (1.0f / 32512.0f));
          }
        }
      }
    }
  }
}

TEST_CASE("a result has the same bits in any batch, at any place and in any row range") {
  const ActivationBits bits = GENERATE(ActivationBits::k15, ActivationBits::k8);
  constexpr int kTokens = 150;    // more than one token group of any kernel
  constexpr int64_t kRows = 101;  // and more rows
  for (Isa isa : supported_isas()) {
    for (DType type : all_types()) {
      std::mt19937 rng(4);
      const int64_t n_cols = dtype_info(type).block_elems == 1    ? 101
                             : dtype_info(type).block_elems == 32 ? 352
                                                                  : 512;
      const OwnedMatrix weight = random_matrix(type, kRows, n_cols, rng);
      const std::vector<float> x = random_activations(kTokens * n_cols, rng);
      const std::vector<float> whole = multiply(isa, weight.view, x, kTokens, bits);
      QuantizedRows quantized(matmul_kernels(isa, bits), x, uses_quantized_activations(type) ? kTokens : 0,
                              n_cols, bits);
      for (int n_tokens : {1, 2, 3, 5, 8, 17, 65}) {
        for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, kRows},
                                  {1, 2},
                                  {3, 20},
                                  {16, 37},
                                  {36, 101},
                                  {100, 101},
                                  {5, 5}}) {
          const int first = static_cast<int>(rng() % static_cast<unsigned>(kTokens - n_tokens + 1));
          std::vector<float> out(static_cast<size_t>(n_tokens * kRows), -7.0f);
          MatmulArgs args;
          args.weight = &weight.view;
          args.row_begin = begin;
          args.row_end = end;
          args.x = x.data() + first * n_cols;
          args.quantized = uses_quantized_activations(type) ? quantized.row(first) : nullptr;
          args.n_tokens = n_tokens;
          args.out = out.data();
          args.out_stride = kRows;
          matmul_kernels(isa, bits).multiply[static_cast<size_t>(type)](args);
          int wrong = 0;
          for (int t = 0; t < n_tokens; ++t) {
            for (int64_t r = 0; r < kRows; ++r) {
              const bool inside = r >= begin && r < end;
              const float expected = inside ? whole[static_cast<size_t>((first + t) * kRows + r)] : -7.0f;
              wrong += std::memcmp(&out[static_cast<size_t>(t * kRows + r)], &expected, sizeof expected) != 0;
            }
          }
          INFO(isa_name(isa) << " " << dtype_info(type).name << " tokens " << n_tokens << " rows " << begin
                             << "-" << end);
          REQUIRE(wrong == 0);
        }
      }
    }
  }
}

// Long row ranges of one token are distributed over lanes in another order.
TEST_CASE("one token's products have the same bits in long row ranges") {
  const ActivationBits bits = GENERATE(ActivationBits::k15, ActivationBits::k8);
  const bool large_l1 = GENERATE(false, true);
  const int64_t n_cols = GENERATE(768, 2048);  // 768: the width of small experts
  constexpr int64_t kRows = 520, kFirst = 3;
  for (Isa isa : supported_isas()) {
    for (DType type : all_types()) {
      std::mt19937 rng(12);
      const OwnedMatrix weight = random_matrix(type, kRows, n_cols, rng);
      const std::vector<float> x = random_activations(2 * n_cols, rng);
      const std::vector<float> two = multiply(isa, weight.view, x, 2, bits);
      const std::vector<float> bias = random_activations(kRows, rng);
      QuantizedRows quantized(matmul_kernels(isa, bits), x, uses_quantized_activations(type) ? 2 : 0, n_cols,
                              bits);
      // In some of these ranges, the rows that lanes read at one time are a multiple of the page size apart.
      for (int64_t end : {int64_t{130}, kFirst + 256, kFirst + 512, kRows}) {
        std::vector<float> out(kRows, 2.0f);
        MatmulArgs args;
        args.weight = &weight.view;
        args.row_begin = kFirst;
        args.row_end = end;
        args.x = x.data() + n_cols;
        args.quantized = uses_quantized_activations(type) ? quantized.row(1) : nullptr;
        args.n_tokens = 1;
        args.bias = bias.data();
        args.out = out.data();
        args.out_stride = kRows;
        args.accumulate = true;
        args.large_l1 = large_l1;
        matmul_kernels(isa, bits).multiply[static_cast<size_t>(type)](args);
        int wrong = 0;
        for (int64_t r = 0; r < kRows; ++r) {
          const auto i = static_cast<size_t>(r);
          const float value = 2.0f + (two[kRows + i] + bias[i]);
          wrong += out[i] != (r >= kFirst && r < end ? value : 2.0f);
        }
        INFO(isa_name(isa) << " " << dtype_info(type).name << " of " << n_cols << " columns, rows to "
                           << end);
        REQUIRE(wrong == 0);
      }
    }
  }
}

TEST_CASE("bias is added, residuals are kept, and rows outside stay untouched") {
  std::mt19937 rng(5);
  for (Isa isa : supported_isas()) {
    for (DType type : {DType::kF32, DType::kF16, DType::kQ4_1, DType::kQ6_K}) {
      const OwnedMatrix weight = random_matrix(type, 21, 256, rng);
      const std::vector<float> x = random_activations(2 * 256, rng);
      const std::vector<float> plain = multiply(isa, weight.view, x, 2);
      const std::vector<float> bias = random_activations(21, rng);
      QuantizedRows quantized(matmul_kernels(isa), x, 2, 256);
      std::vector<float> out(2 * 30, 3.0f);
      MatmulArgs args;
      args.weight = &weight.view;
      args.row_begin = 2;
      args.row_end = 21;
      args.x = x.data();
      args.quantized = quantized.row(0);
      args.n_tokens = 2;
      args.bias = bias.data();
      args.out = out.data();
      args.out_stride = 30;
      args.accumulate = true;
      matmul_kernels(isa).multiply[static_cast<size_t>(type)](args);
      for (size_t t = 0; t < 2; ++t) {
        for (size_t r = 0; r < 30; ++r) {
          const bool inside = r >= 2 && r < 21;
          INFO(isa_name(isa) << " " << dtype_info(type).name << " row " << r);
          REQUIRE(out[t * 30 + r] == (inside ? 3.0f + (plain[t * 21 + r] + bias[r]) : 3.0f));
        }
      }
    }
  }
}

TEST_CASE("activations are quantized to the nearest value, alike on every ISA") {
  constexpr int64_t kCols = 32 * 9;
  std::mt19937 rng(6);
  std::vector<float> x = random_activations(kCols, rng);
  for (int i = 0; i < 32; ++i) {
    const size_t at = static_cast<size_t>(i);
    x[at] = 0.0f;                                      // a group of zeros
    x[32 + at] *= 1e37f / 64.0f;                       // huge
    x[64 + at] *= 1e-38f;                              // so small that 32512 / max overflows
    x[96 + at] *= 1e-30f;                              // tiny
    x[128 + at] = i == 5 ? -1000.0f : 0.25f;           // one outlier
    x[160 + at] = (i % 2 == 0 ? 1.0f : -1.0f) * 3.5f;  // both ends of the range
    x[192 + at] = static_cast<float>(i - 16) + 0.5f;   // ties
    x[224 + at] = -0.0f;
  }
  x[192] = 32512.0f;  // scale 1: the halves above are ties and go to even
  QuantizedRows expected(matmul_kernels(Isa::kScalar), x, 1, kCols);
  const ActivationRow row = activation_row(expected.row(0), kCols);
  for (int64_t i = 0; i < kCols; ++i) {
    const double scale = row.scale[i / 32];
    const int quant = quant_at(Isa::kScalar, row, i);
    const double error = std::fabs(scale * quant - double{x[static_cast<size_t>(i)]});
    INFO("column " << i << " value " << x[static_cast<size_t>(i)] << " quant " << quant);
    REQUIRE(std::abs(quant) <= 32512);
    if (i / 32 == 2) {
      REQUIRE(quant == 0);
    } else {
      REQUIRE(error <= 0.51 * scale);  // x * (32512 / max) is rounded before it is converted to an integer
    }
  }
  REQUIRE(quant_at(Isa::kScalar, row, 193) == -14);  // -14.5
  REQUIRE(quant_at(Isa::kScalar, row, 194) == -14);  // -13.5
  for (int64_t g = 0; g < kCols / 16; ++g) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += quant_at(Isa::kScalar, row, g * 16 + i);
    REQUIRE(row.half_int_sum[g] == sum);
    REQUIRE(row.half_sum[g] == static_cast<float>(sum));
    if (g % 2 == 0) continue;
    REQUIRE(row.int_sum[g / 2] == row.half_int_sum[g - 1] + sum);
    REQUIRE(row.sum[g / 2] == static_cast<float>(row.int_sum[g / 2]));
  }
  for (Isa isa : supported_isas()) {
    INFO(isa_name(isa));
    REQUIRE(same_quantized(isa, x));
  }
}

TEST_CASE("8-bit activations are quantized to the nearest value, to the same bytes on every ISA") {
  constexpr int64_t kCols = 32 * 5;
  std::mt19937 rng(14);
  std::vector<float> x = random_activations(kCols, rng);
  for (size_t i = 0; i < 32; ++i) {
    x[i] = 0.0f;
    x[32 + i] = static_cast<float>(i) - 15.5f;  // ties
    x[64 + i] *= 1e-30f;
    x[96 + i] = i % 2 == 0 ? 3.5f : -3.5f;  // both ends of the range
  }
  x[32] = 127.0f;  // scale 1: ties go to even
  const ActivationBits bits = ActivationBits::k8;
  QuantizedRows expected(matmul_kernels(Isa::kScalar, bits), x, 1, kCols, bits);
  const ActivationRow row = activation_row(expected.row(0), kCols, 1);
  for (int64_t i = 0; i < kCols; ++i) {
    INFO("column " << i);
    const int quant = byte_at(row, i);
    REQUIRE(std::abs(quant) <= 127);
    REQUIRE(std::fabs(double{row.scale[i / 32]} * quant - double{x[static_cast<size_t>(i)]}) <=
            0.51 * double{row.scale[i / 32]});
  }
  REQUIRE(byte_at(row, 33) == -14);  // -14.5
  REQUIRE(byte_at(row, 34) == -14);  // -13.5
  REQUIRE(byte_at(row, 96) == 127);
  REQUIRE(byte_at(row, 97) == -127);
  for (int64_t g = 0; g < kCols / 16; ++g) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += byte_at(row, g * 16 + i);
    REQUIRE(row.half_int_sum[g] == sum);
    REQUIRE(row.half_sum[g] == static_cast<float>(sum));
    if (g % 2 == 1) REQUIRE(row.int_sum[g / 2] == row.half_int_sum[g - 1] + sum);
  }
  const size_t used = kCols / 32 * (32 + kOtherBytesPerSpan);
  for (Isa isa : supported_isas()) {
    INFO(isa_name(isa));
    QuantizedRows rows(matmul_kernels(isa, bits), x, 1, kCols, bits);
    REQUIRE(std::memcmp(rows.row(0), expected.row(0), used) == 0);
    x[40] = std::numeric_limits<float>::infinity();
    QuantizedRows bad(matmul_kernels(isa, bits), x, 1, kCols, bits);
    REQUIRE(std::isnan(activation_row(bad.row(0), kCols, 1).scale[1]));
    x[40] = -7.5f;
  }
}

TEST_CASE("NaN and infinite activations give NaN for their token, alike on every ISA, and touch no other") {
  constexpr int64_t kCols = 256, kRows = 19;
  std::mt19937 rng(9);
  const std::vector<float> good = random_activations(9 * kCols, rng);
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, -nan, inf, -inf}) {
    std::vector<float> x = good;
    x[4 * kCols + 70] = bad;
    x[4 * kCols + 71] = inf;
    for (Isa isa : supported_isas()) {
      const std::vector<float> row(x.begin() + 4 * kCols, x.begin() + 5 * kCols);
      REQUIRE(same_quantized(isa, row));
      QuantizedRows quantized(matmul_kernels(isa), row, 1, kCols);
      REQUIRE(std::isnan(activation_row(quantized.row(0), kCols).scale[2]));
      for (int i = 64; i < 96; ++i) {
        REQUIRE(quant_at(isa, activation_row(quantized.row(0), kCols), i) == 0);
      }
      for (DType type : quantized_types()) {
        const OwnedMatrix weight = random_matrix(type, kRows, kCols, rng);
        const std::vector<float> out = multiply(isa, weight.view, x, 9);
        const std::vector<float> clean = multiply(isa, weight.view, good, 9);
        INFO(isa_name(isa) << " " << dtype_info(type).name << " bad " << bad);
        REQUIRE(same_bits(out, multiply(Isa::kScalar, weight.view, x, 9)));
        for (size_t i = 0; i < out.size(); ++i) {
          if (i / kRows == 4) {
            REQUIRE(std::isnan(out[i]));
          } else {
            REQUIRE(out[i] == clean[i]);
          }
        }
      }
    }
  }
}

TEST_CASE("huge, tiny and zero activations give finite products") {
  std::mt19937 rng(7);
  for (Isa isa : supported_isas()) {
    for (DType type : quantized_types()) {
      const OwnedMatrix weight = random_matrix(type, 3, 256, rng);
      for (float size : {0.0f, 1e-42f, 1e-38f, 1e-20f, 1e30f}) {
        std::vector<float> x = random_activations(256, rng);
        for (float& value : x) value *= size;
        for (float value : multiply(isa, weight.view, x, 1)) {
          INFO(isa_name(isa) << " " << dtype_info(type).name << " size " << size);
          REQUIRE(std::isfinite(value));
          if (size < 1e-40f) REQUIRE(value == 0.0f);
        }
      }
    }
  }
}

TEST_CASE("scales of MXFP4 are exact for every exponent, in whole strips and at a row's end") {
  std::mt19937 rng(8);
  // Above this, a span's term, before it is multiplied by the activations' scale, is not finite.
  constexpr int64_t kCols = 256 + 32, kExponents = 225;
  OwnedMatrix weight = random_matrix(DType::kMXFP4, kExponents, kCols, rng);
  for (size_t row = 0; row < kExponents; ++row) {
    // All blocks of a row have the same magnitude, so that a wrong number of exponents is noticed.
    for (size_t block = 0; block < kCols / 32; ++block) {
      weight.bytes[row * row_bytes(DType::kMXFP4, kCols) + block * sizeof(BlockMXFP4)] =
          static_cast<std::byte>(row);
    }
  }
  const std::vector<float> x = random_activations(7 * kCols, rng);
  for (const ActivationBits bits : {ActivationBits::k15, ActivationBits::k8}) {
    for (int n_tokens : {1, 7}) {
      const std::vector<float> part(x.begin(), x.begin() + n_tokens * kCols);
      const std::vector<float> expected = multiply(Isa::kScalar, weight.view, part, n_tokens, bits);
      for (const float value : expected) REQUIRE((std::isfinite(value) && value != 0.0f));
      for (Isa isa : supported_isas()) {
        INFO(isa_name(isa) << ", " << n_tokens << " tokens");
        CHECK(same_bits(multiply(isa, weight.view, part, n_tokens, bits), expected));
      }
    }
  }
}

}  // namespace hearth::test
