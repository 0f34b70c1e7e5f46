// Matrix products on CUDA: they have the CPU backend's bits for every type, and are within the CPU's bounds
// of a double reference.
//
// Results of quantized types equal those of every CPU instruction set. Results of float types equal those of
// the vector instruction sets, and are compared with them if the machine has one. The tolerance of float
// types against the double reference: a chain adds n_cols / 16 products and 4 levels of a tree follow, each
// rounded by at most 2^-24 of the sum of absolute products. For quantized types see
// tests/kernels/matmul_test.cpp.
#include <cmath>
#include <deque>
#include <limits>

#include "kernels/quant/decode.h"
#include "kernels/quant/dequantize.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_product.h"
#include "tests/kernels/matmul_run.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// The instruction set with CUDA's bits for this type, if this machine has it.
std::optional<Isa> same_isa(DType type) {
  const Isa best = supported_isas().front();
  if (uses_quantized_activations(type) || best != Isa::kScalar) return best;
  return std::nullopt;
}

std::vector<int64_t> column_counts(DType type) {
  const int64_t block = dtype_info(type).block_elems;
  if (block == 1) return {0, 1, 3, 15, 16, 17, 33, 100, 257};
  if (block == 32) return {0, 32, 96, 288, 576, 1056};
  return {0, 256, 768, 1280};
}

int64_t some_columns(DType type) {
  const int64_t block = dtype_info(type).block_elems;
  return block == 1 ? 101 : block == 32 ? 352 : 512;
}

// One token, four per pass, a batch of 16, tiles of 64: every kernel, full and with tails.
const std::vector<int> kTokenCounts = {1, 2, 4, 5, 8, 9, 16, 17, 33, 70};

/// Returns the results that the device's product must have, bit for bit. These are the CPU's, if an
/// instruction set of this machine gives CUDA's bits for the type, and otherwise those of the device for each
/// token alone.
std::vector<float> yardstick(const TestStream& stream, const Matrix& weight, const std::vector<float>& x,
                             int n_tokens) {
  if (const std::optional<Isa> isa = same_isa(weight.dtype)) return multiply(*isa, weight, x, n_tokens);
  std::vector<float> out;
  for (int t = 0; t < n_tokens; ++t) {
    const std::vector<float> one(x.begin() + t * weight.n_cols, x.begin() + (t + 1) * weight.n_cols);
    const std::vector<float> row = device_product(stream, weight, one, 1);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

struct Reference {
  double value = 0.0;
  double magnitude = 0.0;  // sum of |scale q x| + |min x|
};

// The product of a row with the quantized activations.
Reference quantized_reference(const Matrix& weight, int64_t row, const ActivationRow& x) {
  Reference sum;
  visit_block_type(weight.dtype, [&]<class Block>() {
    Decoded<Block> block;
    for (int64_t column = 0; column < weight.n_cols; ++column) {
      const int i = static_cast<int>(column % Block::kElems), g = i / Block::kGroup;
      if (i == 0) decode_block<Block>(weight.row(row) + column / Block::kElems * sizeof(Block), block);
      const double seen = double{x.scale[column / 32]} * quant_at(Isa::kScalar, x, column);
      const double scaled = double{block.scale[g]} * block.q[i];
      sum.value += (scaled + block.min[g]) * seen;
      sum.magnitude += (std::abs(scaled) + std::abs(block.min[g])) * std::abs(seen);
    }
  });
  return sum;
}

}  // namespace

TEST_CASE("CUDA products have the CPU's bits at every width and number of rows") {
  const TestStream stream;
  std::mt19937 rng(1);
  for (DType type : device_types()) {
    for (int64_t n_cols : column_counts(type)) {
      for (int64_t n_rows : {1, 7, 8, 9, 70}) {
        const OwnedMatrix weight = random_matrix(type, n_rows, n_cols, rng);
        for (int n_tokens : {1, 3, 12, 18}) {
          INFO(dtype_info(type).name << " " << n_rows << "x" << n_cols << ", " << n_tokens << " tokens");
          const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
          REQUIRE(different(device_product(stream, weight.view, x, n_tokens),
                            yardstick(stream, weight.view, x, n_tokens)) == 0);
        }
      }
    }
  }
}

// The sanitizers' case (tests/gpu.sh): every kernel of every type, in few and small products.
TEST_CASE("CUDA products have the CPU's bits for any number of tokens, in any order of threads",
          "[sanitizer]") {
  const TestStream stream;
  for (DType type : device_types()) {
    std::mt19937 rng(2);
    const int64_t n_cols = some_columns(type);
    const OwnedMatrix weight = random_matrix(type, 37, n_cols, rng);
    const std::vector<float> x = random_activations(70 * n_cols, rng);
    const std::vector<float> whole = yardstick(stream, weight.view, x, 70);
    for_each_schedule([&] {
      for (int n_tokens : kTokenCounts) {
        INFO(dtype_info(type).name << ", " << n_tokens << " tokens");
        const std::vector<float> part(x.begin(), x.begin() + n_tokens * n_cols);
        REQUIRE(different(device_product(stream, weight.view, part, n_tokens),
                          {whole.begin(), whole.begin() + n_tokens * 37}) == 0);
      }
    });
  }
}

TEST_CASE("CUDA products of one x in one launch have the bits they have alone") {
  const TestStream stream;
  std::mt19937 rng(12);
  struct Case {
    std::vector<DType> types;
    int launches;  // for up to 16 tokens
  };
  for (const Case& c : {Case{{DType::kQ4_0, DType::kQ4_0, DType::kQ4_0}, 1},
                        Case{{DType::kQ4_K, DType::kQ4_K, DType::kQ6_K}, 2},
                        Case{{DType::kQ4_0, DType::kF16, DType::kQ4_0}, 3},
                        Case{{DType::kQ8_0, DType::kQ8_0}, 1}, Case{{DType::kQ5_0}, 1}}) {
    const int64_t n_cols = 512;
    for (int n_tokens : {1, 3, 5, 16, 17}) {
      const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
      const DeviceActivations activations(x, n_tokens, n_cols, stream);
      std::vector<OwnedMatrix> weights;
      std::deque<DeviceMatrix> there;
      std::deque<DeviceArray<float>> alone, together, biases;
      std::vector<cuda::MatmulOp> ops;
      for (size_t i = 0; i < c.types.size(); ++i) {
        const int64_t n_rows = i == 0 ? 37 : i == 1 ? 1 : 16;
        weights.push_back(random_matrix(c.types[i], n_rows, n_cols, rng));
        there.emplace_back(weights.back().view);
        const int64_t stride = n_rows + static_cast<int64_t>(i);
        const std::vector<float> before(static_cast<size_t>(n_tokens * stride), 3.0f);
        alone.emplace_back(before);
        together.emplace_back(before);
        biases.emplace_back(random_activations(n_rows, rng));
        ops.push_back({.weight = there.back().view(),
                       .bias = i == 1 ? biases.back().data() : nullptr,
                       .rows = {},
                       .x = activations.x(),
                       .quantized = activations.quantized(),
                       .n_tokens = n_tokens,
                       .out = alone.back().data(),
                       .out_stride = stride});
        cuda::matmul(ops.back(), stream);
        ops.back().out = together.back().data();
      }
      stream.wait();
#ifdef HEARTH_CUDA_EMULATED
      cudaemu::reset_stats();
#endif
      cuda::matmul(ops, stream);
      for (size_t i = 0; i < ops.size(); ++i) {
        INFO("product " << i << " of " << ops.size() << ", " << n_tokens << " tokens");
        REQUIRE(different(together[i].read(stream), alone[i].read(stream)) == 0);
      }
#ifdef HEARTH_CUDA_EMULATED
      const int launches = n_tokens <= 16 ? c.launches : static_cast<int>(ops.size());
      CHECK(cudaemu::stats().launches == static_cast<uint64_t>(launches));
#endif
    }
  }
}

// More spans than fit in shared memory at a time: 512 for one token, 128 for four.
TEST_CASE("CUDA products of wide rows have the CPU's bits") {
  const TestStream stream;
  std::mt19937 rng(3);
  for (DType type : {DType::kF16, DType::kQ4_0, DType::kQ6_K}) {
    const int64_t n_cols = 32 * 776;
    const OwnedMatrix weight = random_matrix(type, 3, n_cols, rng);
    for (int n_tokens : {1, 2, 11, 17}) {
      INFO(dtype_info(type).name << ", " << n_tokens << " tokens");
      const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
      const std::vector<float> expected = yardstick(stream, weight.view, x, n_tokens);
      for_each_schedule(
          [&] { REQUIRE(different(device_product(stream, weight.view, x, n_tokens), expected) == 0); });
    }
  }
}

// Tiles are higher if there are enough of them: 128 rows, 64 or 32. Includes single spans and tails of rows
// and tokens.
TEST_CASE("CUDA products of many rows and tokens have the CPU's bits in tiles of every height") {
  const DType type = GENERATE(DType::kQ4_1, DType::kQ5_0);
  const TestStream stream;
  std::mt19937 rng(31);
  struct Shape {
    int64_t n_rows;
    int n_tokens;
  };
  for (const Shape shape : {Shape{900, 2000}, Shape{970, 1000}, Shape{970, 200}}) {
    INFO(dtype_info(type).name << " " << shape.n_rows << " rows, " << shape.n_tokens << " tokens");
    const OwnedMatrix weight = random_matrix(type, shape.n_rows, 96, rng);
    const std::vector<float> x = random_activations(shape.n_tokens * int64_t{96}, rng);
    REQUIRE(different(device_product(stream, weight.view, x, shape.n_tokens),
                      yardstick(stream, weight.view, x, shape.n_tokens)) == 0);
  }
}

TEST_CASE("CUDA multiplies rows that lie apart, at any even address") {
  const TestStream stream;
  std::mt19937 rng(4);
  for (DType type : device_types()) {
    const int64_t n_cols = some_columns(type);
    const size_t bytes = row_bytes(type, n_cols);
    const OwnedMatrix packed = random_matrix(type, 20, n_cols, rng);
    for (size_t stride : {bytes + bytes % 2, bytes + bytes % 2 + 2, (bytes + 31) / 16 * 16}) {
      std::vector<std::byte> apart(19 * stride + bytes, std::byte{0xff});
      for (size_t r = 0; r < 20; ++r) {
        std::memcpy(apart.data() + r * stride, packed.bytes.data() + r * bytes, bytes);
      }
      Matrix view = packed.view;
      view.data = apart.data();
      view.row_stride = stride;
      for (int n_tokens : {1, 3, 12, 18}) {
        const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
        const std::vector<float> expected = yardstick(stream, packed.view, x, n_tokens);
        for (size_t offset : {0, 2, 16}) {
          INFO(dtype_info(type).name << " stride " << stride << " offset " << offset << ", " << n_tokens
                                     << " tokens");
          REQUIRE(different(device_product(stream, view, x, n_tokens, {.offset = offset}), expected) == 0);
        }
      }
    }
  }
}

TEST_CASE("CUDA multiplies none, some or all rows by a list, and nothing beyond the list") {
  const TestStream stream;
  std::mt19937 rng(5);
  constexpr int64_t kRows = 70, kStride = 75;
  std::vector<int32_t> all(kRows), some;
  for (int32_t i = 0; i < kRows; ++i) {
    all[static_cast<size_t>(i)] = i;
    if (i % 3 == 1 || i > 60) some.push_back(i);
  }
  for (DType type : device_types()) {
    const int64_t n_cols = some_columns(type);
    const OwnedMatrix weight = random_matrix(type, kRows, n_cols, rng);
    const std::vector<float> bias = random_activations(kRows, rng);
    for (int n_tokens : {1, 3, 12, 18}) {
      const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
      const std::vector<float> whole = yardstick(stream, weight.view, x, n_tokens);
      for (const std::vector<int32_t>& rows : {std::vector<int32_t>{}, {69}, some, all}) {
        for (int64_t max : {static_cast<int64_t>(rows.size()), kRows}) {
          std::vector<float> expected(static_cast<size_t>(n_tokens * kStride), -7.0f);
          for (size_t t = 0; t < static_cast<size_t>(n_tokens); ++t) {
            for (size_t i = 0; i < rows.size(); ++i) {
              const auto r = static_cast<size_t>(rows[i]);
              expected[t * kStride + i] = whole[t * kRows + r] + bias[r];
            }
          }
          INFO(dtype_info(type).name << ", " << rows.size() << " rows of at most " << max << ", " << n_tokens
                                     << " tokens");
          const std::vector<float> out =
              device_product(stream, weight.view, x, n_tokens,
                             {.rows = rows, .list_max = max, .bias = &bias, .stride = kStride});
          REQUIRE(different(out, expected) == 0);
        }
      }
    }
  }
}

TEST_CASE("CUDA adds the bias, keeps the residual and writes nothing beyond the rows") {
  const TestStream stream;
  std::mt19937 rng(6);
  constexpr size_t kRows = 21, kStride = 30;
  for (DType type : device_types()) {
    const int64_t n_cols = some_columns(type);
    const OwnedMatrix weight = random_matrix(type, kRows, n_cols, rng);
    const std::vector<float> bias = random_activations(kRows, rng);
    for (size_t n_tokens : {0, 1, 4, 20}) {
      const int n = static_cast<int>(n_tokens);
      const std::vector<float> x = random_activations(n * n_cols, rng);
      const std::vector<float> residual = random_activations(n * int64_t{kStride}, rng);
      const std::vector<float> plain = yardstick(stream, weight.view, x, n);
      std::vector<float> expected = residual;
      for (size_t t = 0; t < n_tokens; ++t) {
        for (size_t r = 0; r < kRows; ++r) {
          expected[t * kStride + r] = residual[t * kStride + r] + (plain[t * kRows + r] + bias[r]);
        }
      }
      INFO(dtype_info(type).name << ", " << n_tokens << " tokens");
      const std::vector<float> out = device_product(
          stream, weight.view, x, n, {.bias = &bias, .residual = &residual, .stride = int64_t{kStride}});
      REQUIRE(different(out, expected) == 0);
    }
  }
}

// Every byte in the middle of a block is 0x00, 0x7f, 0x80 or 0xff in turn, and activations have quants at the
// ends of both byte planes, in several patterns of signs.
TEST_CASE("CUDA's integer sums neither saturate nor overflow") {
  const TestStream stream;
  constexpr int64_t kCols = 512;
  constexpr int kTokens = 6;
  std::vector<float> x(kCols * kTokens);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t token = i / kCols;
    const float low = i % 32 == 31 ? 1.0f : 32384.0f / 32512.0f;
    x[i] = token == 0   ? 1.0f
           : token == 1 ? -1.0f
           : token == 4 ? low
           : token == 5 ? -low
                        : ((i >> (token - 2)) % 2 == 0 ? 1.0f : -1.0f);
  }
  std::vector<float> many;  // the same tokens often enough for the kernel for many
  for (int i = 0; i < 4; ++i) many.insert(many.end(), x.begin(), x.end());
  for (DType type : quantized_device_types()) {
    std::mt19937 rng(7);
    const OwnedMatrix weight = random_matrix(type, 16, kCols, rng);
    const auto block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
    for (int pattern : {0x00, 0x0f, 0x7f, 0x80, 0xf0, 0xff}) {
      std::vector<std::byte> bytes = weight.bytes;
      for (size_t i = 0; i < bytes.size(); ++i) {
        // The middle of a block holds quants in every format; its ends hold the factors.
        const size_t at = i % block_bytes;
        if (at >= 4 && at + 14 < block_bytes) bytes[i] = static_cast<std::byte>(pattern);
      }
      Matrix view = weight.view;
      view.data = bytes.data();
      INFO(dtype_info(type).name << " pattern " << pattern);
      REQUIRE(different(device_product(stream, view, x, kTokens), yardstick(stream, view, x, kTokens)) == 0);
      REQUIRE(different(device_product(stream, view, many, 4 * kTokens),
                        yardstick(stream, view, many, 4 * kTokens)) == 0);
    }
  }
}

TEST_CASE("CUDA products of NaN, infinite, huge and tiny activations equal the CPU's") {
  const TestStream stream;
  constexpr int64_t kCols = 256, kRows = 19;
  constexpr int kTokens = 20;
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  std::mt19937 rng(8);
  std::vector<float> x = random_activations(kTokens * kCols, rng);
  x[4 * kCols + 70] = nan;
  x[5 * kCols + 255] = inf;
  x[6 * kCols] = -inf;
  for (size_t i = 0; i < kCols; ++i) {
    x[7 * kCols + i] *= 1e-42f;
    x[8 * kCols + i] *= 1e-38f;
    x[9 * kCols + i] *= 1e30f;
    x[10 * kCols + i] = -0.0f;
  }
  for (DType type : quantized_device_types()) {
    INFO(dtype_info(type).name);
    const OwnedMatrix weight = random_matrix(type, kRows, kCols, rng);
    const std::vector<float> expected = yardstick(stream, weight.view, x, kTokens);
    REQUIRE(different(device_product(stream, weight.view, x, kTokens), expected) == 0);
    const std::vector<float> few(x.begin() + 3 * kCols, x.begin() + 11 * kCols);
    const std::vector<float> out = device_product(stream, weight.view, few, 8);
    REQUIRE(different(out, {expected.begin() + 3 * kRows, expected.begin() + 11 * kRows}) == 0);
    for (size_t i = 0; i < out.size(); ++i)
      REQUIRE(std::isfinite(out[i]) == (i / kRows < 1 || i / kRows > 3));
  }
}

TEST_CASE("CUDA's products with float weights are those of a double reference") {
  const TestStream stream;
  std::mt19937 rng(9);
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t n_cols : column_counts(type)) {
      const OwnedMatrix weight = random_matrix(type, 19, n_cols, rng);
      for (int n_tokens : {1, 3, 12, 18}) {
        const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
        const std::vector<float> out = device_product(stream, weight.view, x, n_tokens);
        for (size_t i = 0; i < out.size(); ++i) {
          const size_t row = i % 19, first = i / 19 * static_cast<size_t>(n_cols);
          std::vector<float> w(static_cast<size_t>(n_cols));
          dequantize_row(type, weight.view.row(static_cast<int64_t>(row)), n_cols, w.data());
          double sum = 0, size = 0;
          for (size_t c = 0; c < w.size(); ++c) {
            sum += double{w[c]} * x[first + c];
            size += std::abs(double{w[c]} * x[first + c]);
          }
          INFO(dtype_info(type).name << " " << n_cols << " columns, row " << row);
          REQUIRE(std::abs(out[i] - sum) <= (static_cast<double>(n_cols) / 16 + 6) * 0x1p-24 * size);
        }
      }
    }
  }
}

TEST_CASE("CUDA's products with quantized weights are those of a double reference") {
  const TestStream stream;
  std::mt19937 rng(10);
  for (DType type : quantized_device_types()) {
    const int64_t n_cols = some_columns(type);
    const OwnedMatrix weight = random_matrix(type, 19, n_cols, rng);
    for (int n_tokens : {1, 3, 12, 18}) {
      const std::vector<float> x = random_activations(n_tokens * n_cols, rng);
      const std::vector<float> out = device_product(stream, weight.view, x, n_tokens);
      QuantizedRows rows(matmul_kernels(Isa::kScalar), x, n_tokens, n_cols);
      for (int t = 0; t < n_tokens; ++t) {
        for (int64_t r = 0; r < 19; ++r) {
          const Reference expected = quantized_reference(weight.view, r, activation_row(rows.row(t), n_cols));
          INFO(dtype_info(type).name << " row " << r << " token " << t);
          REQUIRE(std::abs(out[static_cast<size_t>(t * 19 + r)] - expected.value) <=
                  (static_cast<double>(n_cols) / 32 + 6) * 0x1p-24 * expected.magnitude);
        }
      }
    }
  }
}

}  // namespace hearth::test
