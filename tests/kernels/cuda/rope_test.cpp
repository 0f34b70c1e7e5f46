// Rotation on the device: it has the CPU backend's bits.
#include <cmath>
#include <random>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cuda/ops/ops.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/support/catch.h"
#include "tests/support/reference_ops.h"

namespace hearth::test {
namespace {

std::vector<float> rope_inputs(size_t n, float deviation, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> numbers(n);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

}  // namespace

TEST_CASE("CUDA: rotated heads of queries, and of keys in the same launch, have the CPU's bits") {
  std::mt19937 random(3);
  struct Case {
    RopeKind kind;
    int n_heads, head_dim, n_rot;
    float magnitude;
  };
  const std::vector<int32_t> positions = {0, 1, 5, 4095, 131072};
  for (const Case& c :
       {Case{RopeKind::kHalves, 3, 64, 64, 1.0f}, Case{RopeKind::kHalves, 2, 80, 32, 1.19f},
        Case{RopeKind::kHalves, 1, 96, 22, 1.0f}, Case{RopeKind::kInterleaved, 3, 64, 64, 1.0f},
        Case{RopeKind::kInterleaved, 2, 128, 50, 1.37f}, Case{RopeKind::kInterleaved, 1, 20, 2, 1.0f},
        Case{RopeKind::kHalves, 1, 64, 0, 1.0f}, Case{RopeKind::kNone, 1, 64, 0, 1.0f}}) {
    std::vector<float> inv_freq;
    for (int i = 0; i < c.n_rot / 2; ++i)
      inv_freq.push_back(std::pow(1e4f, -2.0f * static_cast<float>(i) / 64));
    const Rope rope{c.kind, c.n_rot, inv_freq.data(), c.magnitude};
    const int64_t stride = int64_t{c.n_heads} * c.head_dim + 4;
    const std::vector<float> x = rope_inputs(positions.size() * static_cast<size_t>(stride), 2.0f, random);

    ThreadPool pool(1);
    RopeTable table;
    table.reserve(static_cast<int>(positions.size()), 128);
    table.prepare(positions, rope, pool);
    const int64_t row_floats = table.row(1) - table.row(0);
    const std::vector<float> rows(table.row(0), table.row(static_cast<int64_t>(positions.size())));
    const TestStream stream;
    const DeviceArray<float> alone(x), x_there(x), table_there(rows);
    const int n_keys = c.n_heads + 1, n_tokens = static_cast<int>(positions.size());
    const int64_t key_stride = int64_t{n_keys} * c.head_dim + 2;
    const std::vector<float> k =
        rope_inputs(positions.size() * static_cast<size_t>(key_stride), 2.0f, random);
    const DeviceArray<float> k_there(k);
    cuda::rope({alone.data(), stride, c.n_heads}, {}, c.head_dim, c.kind, c.n_rot, table_there.data(),
               row_floats, n_tokens, stream);
    cuda::rope({x_there.data(), stride, c.n_heads}, {k_there.data(), key_stride, n_keys}, c.head_dim, c.kind,
               c.n_rot, table_there.data(), row_floats, n_tokens, stream);
    const std::vector<float> ours = x_there.read(stream), keys = k_there.read(stream);
    REQUIRE(alone.read(stream) == ours);
    for (Isa isa : supported_isas()) {
      CpuBackend backend(1, isa);
      backend.reserve({n_tokens, 1024, c.n_heads, 16});
      std::vector<float> expected = x, expected_keys = k;
      backend.rope(expected.data(), stride, c.n_heads, c.head_dim, positions, rope);
      backend.rope(expected_keys.data(), key_stride, n_keys, c.head_dim, positions, rope);
      INFO(isa_name(isa) << ", " << c.n_rot << " of " << c.head_dim << " dimensions");
      REQUIRE(different(ours, expected) == 0);
      REQUIRE(different(keys, expected_keys) == 0);
    }
    for (size_t t = 0; t < positions.size(); ++t) {
      const size_t row = t * static_cast<size_t>(stride);
      const std::vector<double> expected =
          testing::reference_rope(x.data() + row, c.head_dim, positions[t], rope);
      // Cosine, sine, two products and their sum are rounded, for numbers up to about 10.
      for (size_t d = 0; d < expected.size(); ++d)
        REQUIRE(std::abs(double{ours[row + d]} - expected[d]) < 5e-6);
    }
  }
}

}  // namespace hearth::test
