// Products of prompts by cuBLASLt: close to a double reference for every type, and each token gets the same
// bits in any call and at any position. On the emulator the library is the emulator's; on a GPU it is
// NVIDIA's, if it is installed.
//
// Tolerances, relative to the sum of absolute products. A token's values are rounded to the weights' type, by
// at most 2^-11 of each for f16 and 2^-8 for bf16; a dequantized weight by 2^-11 again. F32 sums are a chain
// of n_cols roundings, each at most 2^-24, but tensor cores truncate instead of rounding, so 2^-22. Subnormal
// f16 values are off by 2^-25.
#include "kernels/cuda/matmul/cublaslt_products.h"

#include <cmath>
#include <limits>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/runtime/device_attribute.h"
#include "kernels/quant/dequantize.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_product.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"

namespace hearth::test {
namespace {

using cuda::kLibraryTokens;
using cuda::LibraryProducts;
using cuda::LibraryScratch;

/// Returns null, and skips the test, if it is not installed.
std::unique_ptr<LibraryProducts> started() {
  if (const std::string why = cuda::why_no_prompt_library(); !why.empty()) {
    testing::skip("cuBLASLt is not installed: " + why);
    return nullptr;
  }
  auto made = LibraryProducts::start();
  if (const std::string* why = std::get_if<std::string>(&made)) FAIL(*why);
  return std::get<std::unique_ptr<LibraryProducts>>(std::move(made));
}

/// Returns whether the device has products of this type.
bool multiplies(DType type) {
  return type != DType::kBF16 || cuda::device_attribute(cudaDevAttrComputeCapabilityMajor) >= 8;
}

/// Scratch for matrices of up to n_cols columns.
class Scratch {
 public:
  Scratch(int max_tokens, int64_t max_rows, int64_t max_cols)
      : tokens_(static_cast<size_t>(LibraryScratch::packed_tokens(max_tokens) * max_cols)),
        unscale_(static_cast<size_t>(LibraryScratch::packed_tokens(max_tokens))),
        products_(static_cast<size_t>(kLibraryTokens * cuda::products_stride(max_rows))),
        weights_(static_cast<size_t>(max_rows * max_cols)),
        view_{.max_cols = max_cols,
              .max_rows = cuda::products_stride(max_rows),
              .max_weights = max_rows * max_cols,
              .tokens = tokens_.data(),
              .unscale = unscale_.data(),
              .products = products_.data(),
              .weights = weights_.data()} {}
  operator const LibraryScratch&() const { return view_; }  // converts on purpose
  LibraryScratch& view() { return view_; }

 private:
  DeviceArray<float> tokens_, unscale_, products_;
  DeviceArray<uint16_t> weights_;
  LibraryScratch view_;
};

struct Extras {
  const std::vector<float>* bias = nullptr;
  const std::vector<float>* residual = nullptr;  // `out` to add to
  int64_t stride = 0;                            // of out; 0 for n_rows
};

std::vector<float> library_product(LibraryProducts& library, const TestStream& stream, const Matrix& weight,
                                   const std::vector<float>& x, int n_tokens, const Extras& extras = {}) {
  const DeviceMatrix matrix(weight);
  const DeviceArray<float> tokens(x), bias(extras.bias != nullptr ? *extras.bias : std::vector<float>());
  const int64_t stride = extras.stride != 0 ? extras.stride : weight.n_rows;
  const std::vector<float> before(static_cast<size_t>(n_tokens * stride), -7.0f);
  const DeviceArray<float> out(extras.residual != nullptr ? *extras.residual : before);
  Scratch scratch(n_tokens, weight.n_rows, weight.n_cols);
  REQUIRE(library.takes(matrix.view(), scratch));
  library.multiply(tokens.data(), n_tokens,
                   std::array{Product{.weight = matrix.view(),
                                      .bias = extras.bias != nullptr ? bias.data() : nullptr,
                                      .out = out.data(),
                                      .out_stride = stride,
                                      .accumulate = extras.residual != nullptr}},
                   scratch, stream);
  return out.read(stream);
}

std::vector<float> row_of(const Matrix& weight, int64_t row) {
  std::vector<float> values(static_cast<size_t>(weight.n_cols));
  dequantize_row(weight.dtype, weight.row(row), weight.n_cols, values.data());
  return values;
}

int64_t first_columns(DType type) { return std::max<int64_t>(dtype_info(type).block_elems, 8); }

/// Largest deviation allowed for a product of these rows.
double tolerance(DType type, const std::vector<float>& weight, const float* x) {
  double products = 0, weights = 0, tokens = 0, largest = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    products += std::abs(double{weight[i]} * x[i]);
    weights += std::abs(double{weight[i]});
    tokens += std::abs(double{x[i]});
    largest = std::max(largest, std::abs(double{x[i]}));
  }
  const double of_sums = static_cast<double>(weight.size()) * std::ldexp(1.0, -22);
  if (type == DType::kF32) return products * of_sums;
  if (type == DType::kBF16) return products * (of_sums + std::ldexp(1.0, -8));
  const double of_weights =
      type == DType::kF16 ? 0.0 : std::ldexp(1.0, -11) * products + std::ldexp(1.0, -25) * tokens;
  return products * (of_sums + std::ldexp(1.0, -11)) + of_weights + std::ldexp(largest, -39) * weights;
}

void check_near(const Matrix& weight, const std::vector<float>& x, int n_tokens,
                const std::vector<float>& out) {
  for (int64_t r = 0; r < weight.n_rows; ++r) {
    const std::vector<float> row = row_of(weight, r);
    for (int t = 0; t < n_tokens; ++t) {
      const float* token = x.data() + t * weight.n_cols;
      double expected = 0;
      for (size_t i = 0; i < row.size(); ++i) expected += double{row[i]} * token[i];
      INFO("row " << r << ", token " << t);
      REQUIRE(std::abs(out[static_cast<size_t>(t * weight.n_rows + r)] - expected) <=
              tolerance(weight.dtype, row, token));
    }
  }
}

TEST_CASE("a library's products of every type are near those in double, for any number of rows and tokens") {
  const auto library = started();
  if (!library) return;
  const TestStream stream;
  std::mt19937 rng(1);
  for (const DType type : device_types()) {
    if (!multiplies(type)) continue;
    for (const int64_t n_cols : {first_columns(type), 3 * first_columns(type)}) {
      for (const int64_t n_rows : {1, 7, 20}) {
        const OwnedMatrix weight = random_matrix(type, n_rows, n_cols, rng);
        for (const int n_tokens : {1, 3, 130}) {
          INFO(dtype_info(type).name << " " << n_rows << "x" << n_cols << ", " << n_tokens << " tokens");
          const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
          check_near(weight.view, x, n_tokens, library_product(*library, stream, weight.view, x, n_tokens));
        }
      }
    }
  }
}

TEST_CASE("a token has the same bits from a library in every call and place") {
  const auto library = started();
  if (!library) return;
  const TestStream stream;
  std::mt19937 rng(2);
  constexpr int kTokens = 2 * kLibraryTokens + 5;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ6_K}) {
    if (!multiplies(type)) continue;
    const int64_t n_cols = 256;
    const OwnedMatrix weight = random_matrix(type, 12, n_cols, rng);
    const std::vector<float> x = random_activations(kTokens * n_cols, rng);
    const std::vector<float> whole = library_product(*library, stream, weight.view, x, kTokens);
    for (const int first : {0, 1, 7, 127, 128, 200}) {
      for (const int n : {1, 2, 61}) {
        INFO(dtype_info(type).name << ", " << n << " tokens from " << first << " on");
        const std::vector<float> part(x.begin() + first * n_cols, x.begin() + (first + n) * n_cols);
        CHECK(different(library_product(*library, stream, weight.view, part, n),
                        {whole.begin() + first * 12, whole.begin() + (first + n) * 12}) == 0);
      }
    }
  }
}

TEST_CASE("a library's products get their bias, keep the residual and write nothing beyond the rows") {
  const auto library = started();
  if (!library) return;
  const TestStream stream;
  std::mt19937 rng(3);
  constexpr size_t kRows = 21, kStride = 31, kTokens = 5;
  for (const DType type : {DType::kF16, DType::kQ8_0}) {
    if (!multiplies(type)) continue;
    const OwnedMatrix weight = random_matrix(type, kRows, 64, rng);
    const std::vector<float> bias = random_activations(kRows, rng), x = random_activations(kTokens * 64, rng);
    const std::vector<float> residual = random_activations(kTokens * kStride, rng);
    const std::vector<float> plain = library_product(*library, stream, weight.view, x, kTokens);
    std::vector<float> expected = residual, biased(kTokens * kStride, -7.0f);
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t r = 0; r < kRows; ++r) {
        biased[t * kStride + r] = plain[t * kRows + r] + bias[r];
        expected[t * kStride + r] = residual[t * kStride + r] + (plain[t * kRows + r] + bias[r]);
      }
    }
    INFO(dtype_info(type).name);
    CHECK(different(
              library_product(*library, stream, weight.view, x, kTokens, {.bias = &bias, .stride = kStride}),
              biased) == 0);
    CHECK(different(library_product(*library, stream, weight.view, x, kTokens,
                                    {.bias = &bias, .residual = &residual, .stride = kStride}),
                    expected) == 0);
  }
}

// As f16, values above 65504 would be infinite and those below 6e-8 zero.
TEST_CASE(
    "a library's products of huge and tiny tokens are as near as others, and a NaN stays in its token") {
  const auto library = started();
  if (!library) return;
  const TestStream stream;
  std::mt19937 rng(4);
  constexpr int64_t kCols = 64, kRows = 8;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_1}) {
    if (!multiplies(type)) continue;
    INFO(dtype_info(type).name);
    const OwnedMatrix weight = random_matrix(type, kRows, kCols, rng);
    std::vector<float> x = random_activations(6 * kCols, rng);
    const float factors[6] = {1e30f, 1e-30f, 65504.0f, 0.0f, 1.0f, 1.0f};
    for (size_t t = 0; t < 6; ++t) {
      for (size_t i = 0; i < kCols; ++i) x[t * kCols + i] *= factors[t];
    }
    const std::vector<float> good = library_product(*library, stream, weight.view, x, 6);
    check_near(weight.view, x, 6, good);
    x[4 * kCols + 17] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> out = library_product(*library, stream, weight.view, x, 6);
    for (size_t r = 0; r < kRows; ++r) CHECK(std::isnan(out[4 * kRows + r]));
    for (size_t i = 0; i < good.size(); ++i) {
      if (i / kRows != 4) REQUIRE(out[i] == good[i]);
    }
  }
}

TEST_CASE("matrices with more rows than fit a piece are multiplied in pieces") {
  const auto library = started();
  if (!library) return;
  CHECK(cuda::library_piece_rows(100, 4096) == 100);
  CHECK(cuda::library_piece_rows(150'000, 1024) == cuda::kLibraryRows);
  CHECK(cuda::library_piece_rows(150'000, 8192) == 4096);
  CHECK(cuda::library_piece_rows(150'000, 5000) * 5000 * 2 <=
        static_cast<int64_t>(cuda::kLibraryWeightsBytes));
  const TestStream stream;
  std::mt19937 rng(5);
  const int64_t n_rows = cuda::kLibraryRows + 20;
  for (const DType type : {DType::kF16, DType::kQ8_0}) {
    if (!multiplies(type)) continue;
    INFO(dtype_info(type).name);
    const OwnedMatrix weight = random_matrix(type, n_rows, 32, rng);
    const std::vector<float> x = random_activations(2 * 32, rng), bias = random_activations(n_rows, rng);
    std::vector<float> expected = library_product(*library, stream, weight.view, x, 2);
    check_near(weight.view, x, 2, expected);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % bias.size()];
    CHECK(different(library_product(*library, stream, weight.view, x, 2, {.bias = &bias}), expected) == 0);
  }
}

TEST_CASE("a library takes the matrices it can read, whatever the step") {
  const auto library = started();
  if (!library) return;
  std::mt19937 rng(6);
  Scratch scratch(1, 64, 512);
  const DeviceMatrix f16(random_matrix(DType::kF16, 16, 64, rng).view),
      odd(random_matrix(DType::kF16, 16, 60, rng).view), q4(random_matrix(DType::kQ4_0, 16, 64, rng).view),
      wide(random_matrix(DType::kF16, 16, 520, rng).view), tall(random_matrix(DType::kF16, 65, 64, rng).view);
  CHECK(library->takes(f16.view(), scratch));
  CHECK(library->takes(q4.view(), scratch));
  CHECK_FALSE(library->takes(odd.view(), scratch));
  CHECK_FALSE(library->takes(wide.view(), scratch));
  CHECK_FALSE(library->takes(tall.view(), scratch));
  Matrix view = f16.view();
  view.n_rows = 8;
  view.data += 2;
  CHECK_FALSE(library->takes(view, scratch));
  view = f16.view();
  view.n_rows = 4;
  view.row_stride = 130;
  CHECK_FALSE(library->takes(view, scratch));
  scratch.view().max_weights = 0;
  CHECK_FALSE(library->takes(q4.view(), scratch));
  CHECK(library->takes(f16.view(), scratch));
}

TEST_CASE("quantized matrices are dequantized for a library on GPUs for data centers only") {
  for (const cuda::Version& version : {cuda::Version{8, 0}, {9, 0}, {10, 0}, {10, 3}})
    CHECK(cuda::library_decodes(version));
  for (const cuda::Version& version : {cuda::Version{7, 5}, {8, 6}, {8, 9}, {12, 0}})
    CHECK_FALSE(cuda::library_decodes(version));
}

}  // namespace
}  // namespace hearth::test
