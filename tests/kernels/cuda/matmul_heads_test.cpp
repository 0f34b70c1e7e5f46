// Products of heads on CUDA: they have the CPU backend's bits, in one launch, or in two for many tokens and
// quantized weights.
#include <optional>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/ops/ops.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_product.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

struct HeadShape {
  int n_heads;
  int64_t n_rows, n_cols;
  int64_t rows_between = 0;  // other rows after each head's
};

/// A token has other numbers before and behind those of its heads. Both counts are odd, so that nothing is
/// aligned by chance.
constexpr int64_t kBefore = 5, kBehind = 2;

/// Heads of random weights and inputs, on the host and on the device.
class Heads {
 public:
  Heads(DType type, const HeadShape& shape, int max_tokens, std::mt19937& rng)
      : shape_(shape),
        weights_(random_matrix(type, shape.n_heads * rows_apart(), shape.n_cols, rng)),
        x_(random_activations(max_tokens * x_stride(), rng)),
        on_device_(weights_.view),
        x_on_device_(x_) {}

  std::vector<float> on_cpu(Isa isa, int n_tokens) const {
    CpuBackend cpu(1, isa);
    StepBounds bounds{.max_tokens = std::max(n_tokens, 1),
                      .max_cols = 4096,
                      .n_heads = std::max(shape_.n_heads, 1),
                      .head_dim = 64};
    bounds.head_cols = shape_.n_cols;
    cpu.reserve(bounds);
    std::vector<float> out = untouched(n_tokens);
    cpu.multiply_heads(products(weights_.view, x_.data(), out.data()), n_tokens);
    return out;
  }

  /// Computes each head alone as a product of packed rows, for comparison where the CPU's bits differ.
  std::vector<float> one_by_one(const TestStream& stream, int n_tokens) const {
    std::vector<float> out = untouched(n_tokens);
    for (int64_t h = 0; h < shape_.n_heads; ++h) {
      std::vector<float> packed;
      for (int64_t t = 0; t < n_tokens; ++t) {
        const auto row = x_.begin() + t * x_stride() + h * x_head_stride() + kBefore;
        packed.insert(packed.end(), row, row + shape_.n_cols);
      }
      Matrix weight = products(weights_.view, nullptr, nullptr).weight;
      weight.data = weights_.view.row(h * rows_apart());
      const std::vector<float> of_head = device_product(stream, weight, packed, n_tokens);
      for (int64_t t = 0; t < n_tokens; ++t)
        std::copy_n(of_head.begin() + t * shape_.n_rows, shape_.n_rows,
                    out.begin() + t * out_stride() + h * out_head_stride());
    }
    return out;
  }

  std::vector<float> on_device(const TestStream& stream, int n_tokens) const {
    const DeviceArray<float> out(untouched(n_tokens));
    const HeadProducts heads = products(on_device_.view(), x_on_device_.data(), out.data());
    const int n_rows = cuda::needs_room(heads, n_tokens) ? shape_.n_heads * n_tokens : 0;
    const DeviceArray<std::byte> room(cuda::quantized_bytes(n_rows, shape_.n_cols));
    cuda::multiply_heads(heads, n_tokens, cuda::quantized_in(room.data(), n_rows, shape_.n_cols), stream);
    return out.read(stream);
  }

  int64_t n_cols() const { return shape_.n_cols; }

 private:
  int64_t rows_apart() const { return shape_.n_rows + shape_.rows_between; }
  int64_t x_head_stride() const { return kBefore + shape_.n_cols + kBehind; }
  int64_t x_stride() const { return shape_.n_heads * x_head_stride() + 1; }
  int64_t out_head_stride() const { return shape_.n_rows + 1; }
  int64_t out_stride() const { return shape_.n_heads * out_head_stride() + 3; }
  std::vector<float> untouched(int n_tokens) const {
    return std::vector<float>(static_cast<size_t>(n_tokens * out_stride()), -7.0f);
  }
  HeadProducts products(const Matrix& weights, const float* x, float* out) const {
    return {.weight = {weights.data, weights.dtype, shape_.n_rows, shape_.n_cols},
            .rows_apart = rows_apart(),
            .n_heads = shape_.n_heads,
            .x = x == nullptr ? nullptr : x + kBefore,
            .x_stride = x_stride(),
            .x_head_stride = x_head_stride(),
            .out = out,
            .out_stride = out_stride(),
            .out_head_stride = out_head_stride()};
  }

  HeadShape shape_;
  OwnedMatrix weights_;
  std::vector<float> x_;
  DeviceMatrix on_device_;
  DeviceArray<float> x_on_device_;
};

/// Returns the expected results. These are the CPU's, if an instruction set of this machine gives CUDA's bits
/// for the type and there are columns, and otherwise those of CUDA's products of single heads.
std::vector<float> expected_heads(const Heads& heads, const TestStream& stream, DType type, int n_tokens) {
  const Isa best = supported_isas().front();
  const bool alike = uses_quantized_activations(type) || best != Isa::kScalar;
  if (alike && heads.n_cols() > 0) return heads.on_cpu(best, n_tokens);
  return heads.one_by_one(stream, n_tokens);
}

}  // namespace

TEST_CASE("CUDA multiplies heads with the CPU's bits at every width, number of rows and number of tokens") {
  const TestStream stream;
  std::mt19937 rng(41);
  for (DType type : device_types()) {
    const int64_t block = dtype_info(type).block_elems;
    const std::vector<int64_t> widths = block == 1    ? std::vector<int64_t>{0, 1, 15, 33, 128}
                                        : block == 32 ? std::vector<int64_t>{0, 32, 96, 544, 1088}
                                                      : std::vector<int64_t>{0, 256, 768};
    for (int64_t n_cols : widths) {
      for (const HeadShape& shape :
           {HeadShape{1, 1, n_cols}, {3, 33, n_cols}, {2, 70, n_cols, 7}, {0, 5, n_cols}}) {
        const Heads heads(type, shape, 18, rng);
        for (int n_tokens : {0, 1, 3, 18}) {
          INFO(dtype_info(type).name << ", " << shape.n_heads << " heads of " << shape.n_rows << "x" << n_cols
                                     << ", " << n_tokens << " tokens");
          REQUIRE(different(heads.on_device(stream, n_tokens),
                            expected_heads(heads, stream, type, n_tokens)) == 0);
        }
      }
    }
  }
}

TEST_CASE("CUDA multiplies heads with the CPU's bits for any number of tokens, in any order of threads") {
  const TestStream stream;
  for (DType type : {DType::kF32, DType::kBF16, DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K}) {
    std::mt19937 rng(42);
    const HeadShape shape{3, 37, uses_quantized_activations(type) ? 768 : 101, 4};
    const Heads heads(type, shape, 70, rng);
    for (int n_tokens : {1, 2, 4, 5, 8, 9, 16, 17, 33, 70}) {
      INFO(dtype_info(type).name << ", " << n_tokens << " tokens");
      const std::vector<float> expected = expected_heads(heads, stream, type, n_tokens);
      REQUIRE(different(heads.one_by_one(stream, n_tokens), expected) == 0);
      for_each_schedule([&] { REQUIRE(different(heads.on_device(stream, n_tokens), expected) == 0); });
    }
  }
}

TEST_CASE("CUDA multiplies all heads of a layer in one launch, or in two where many tokens are quantized",
          "[emulated]") {
#ifdef HEARTH_CUDA_EMULATED
  const TestStream stream;
  std::mt19937 rng(43);
  for (DType type : {DType::kQ8_0, DType::kBF16}) {
    // A layer of GLM-4.7-Flash has 20 heads, and such products, with more rows, before and after attention.
    for (const HeadShape& shape : {HeadShape{20, 40, 192}, HeadShape{20, 40, 512, 24}}) {
      const Heads heads(type, shape, 17, rng);
      for (int n_tokens : {1, 16, 17}) {
        cudaemu::reset_stats();
        heads.on_device(stream, n_tokens);
        const bool twice = n_tokens > 16 && uses_quantized_activations(type);
        CHECK(cudaemu::stats().launches == (twice ? 2 : 1));
      }
    }
  }
#endif
}

}  // namespace hearth::test
