// Quantized activations on CUDA: they have the CPU backend's bits.
#include <limits>

#include "kernels/cuda/ops/ops.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_product.h"
#include "tests/kernels/matmul_run.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

template <class T>
std::vector<T> part(const std::vector<std::byte>& bytes, const std::byte* begin, const T* at, size_t n) {
  std::vector<T> values(n);
  const auto offset = static_cast<size_t>(reinterpret_cast<const std::byte*>(at) - begin);
  REQUIRE(offset % 256 == 0);
  REQUIRE(offset + n * sizeof(T) <= bytes.size());
  if (n > 0) std::memcpy(values.data(), bytes.data() + offset, n * sizeof(T));
  return values;
}

/// Requires that the device quantizes x like the CPU.
void require_same_quants(const std::vector<float>& x, int n_tokens, int64_t n_cols) {
  const TestStream stream;
  const DeviceActivations device(x, n_tokens, n_cols, stream);
  const std::vector<std::byte> bytes = device.read(stream);
  const cuda::QuantizedActivations& q = device.quantized();
  const auto high = part(bytes, device.memory(), q.high, x.size());
  const auto low = part(bytes, device.memory(), q.low, x.size());
  const auto scale = part(bytes, device.memory(), q.scale, x.size() / 32);
  const auto half_sum = part(bytes, device.memory(), q.half_sum, x.size() / 16);
  QuantizedRows rows(matmul_kernels(Isa::kScalar), x, n_tokens, n_cols);
  std::vector<float> cpu_scale;
  std::vector<int32_t> cpu_half_sum;
  int wrong = 0;
  for (int t = 0; t < n_tokens; ++t) {
    const ActivationRow row = activation_row(rows.row(t), n_cols);
    cpu_scale.insert(cpu_scale.end(), row.scale, row.scale + n_cols / 32);
    cpu_half_sum.insert(cpu_half_sum.end(), row.half_int_sum, row.half_int_sum + n_cols / 16);
    for (int64_t i = 0; i < n_cols; ++i) {
      const auto at = static_cast<size_t>(t * n_cols + i);
      wrong += 256 * high[at] + low[at] != quant_at(Isa::kScalar, row, i);
    }
  }
  REQUIRE(wrong == 0);
  REQUIRE(different(scale, cpu_scale) == 0);
  REQUIRE(half_sum == cpu_half_sum);
}

}  // namespace

TEST_CASE("CUDA quantizes activations as the CPU does") {
  std::mt19937 rng(1);
  for_each_schedule([&] {
    for (int64_t n_cols : {32, 64, 288, 1056}) {
      for (int n_tokens : {0, 1, 2, 5}) {
        INFO(n_cols << " columns, " << n_tokens << " tokens");
        require_same_quants(random_activations(n_tokens * n_cols, rng), n_tokens, n_cols);
      }
    }
  });
}

TEST_CASE("CUDA quantizes extreme activations as the CPU does") {
  constexpr int64_t kCols = 32 * 14;
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  std::mt19937 rng(2);
  std::vector<float> x = random_activations(kCols, rng);
  for (size_t i = 0; i < 32; ++i) {
    x[i] = 0.0f;
    x[32 + i] *= 1e37f / 64.0f;                                             // huge
    x[64 + i] *= 1e-38f;                                                    // too small for a scale
    x[96 + i] *= 1e-30f;                                                    // tiny
    x[128 + i] = i == 5 ? -1000.0f : 0.25f;                                 // one outlier
    x[160 + i] = (i % 2 == 0 ? 1.0f : -1.0f) * 3.5f;                        // both ends of the range
    x[192 + i] = i == 0 ? 32512.0f : static_cast<float>(i) - 16.0f + 0.5f;  // ties
    x[224 + i] = -0.0f;
    x[256 + i] = i == 31 ? 1.0f : 32384.0f / 32512.0f;  // low bytes are at their limit too
    x[288 + i] = -x[256 + i];
  }
  x[320] = nan;
  x[352 + 31] = -nan;
  x[384 + 16] = inf;
  x[416 + 15] = -inf;
  require_same_quants(x, 1, kCols);
  require_same_quants(x, 2, kCols / 2);
}

}  // namespace hearth::test
