// Products whose rows are partly in host memory and partly in device memory: the same bits as of one matrix,
// and no row is read that was freed.
#include "engine/forward/split_product.h"

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/support/catch.h"
#include "tests/support/same_bits.h"

namespace hearth::test {
namespace {

constexpr int kSplitTokens = 3;

TEST_CASE("a split product has the bits of the whole one, wherever the rows are split") {
  const int64_t on_device = GENERATE(0, 1, 32, 70, 71);
  const bool biased = GENERATE(true, false);
  INFO(on_device << " rows on the device");
  constexpr int64_t kRows = 71, kCols = 64;
  ModelSpec spec;
  spec.d_ff = static_cast<int>(kRows);
  spec.d_model = static_cast<int>(kCols);
  CpuBackend cpu(2, supported_isas().front()), device(1, supported_isas().front());
  StepBounds bounds;
  bounds.max_tokens = kSplitTokens;
  bounds.max_cols = kCols;
  for (CpuBackend* backend : {&cpu, &device}) backend->reserve(bounds);

  std::mt19937 rng(11);
  std::normal_distribution<float> normal;
  std::vector<float> x(kSplitTokens * kCols), bias(kRows), rows(kRows * kCols);
  for (std::vector<float>* numbers : {&x, &bias, &rows})
    std::ranges::generate(*numbers, [&] { return normal(rng); });
  const auto matrix_of = [&](const std::vector<float>& numbers) {
    return Matrix{reinterpret_cast<const std::byte*>(numbers.data()), DType::kF32, kRows, kCols};
  };
  std::vector<float> expected(kSplitTokens * kRows), found(kSplitTokens * kRows);
  const Linear whole{matrix_of(rows), biased ? bias.data() : nullptr};
  cpu.matmul(x.data(), kSplitTokens, std::array{product(whole, expected.data())});

  // The host's rows of the neurons that only the device has hold nothing.
  std::vector<float> kept = rows;
  std::fill_n(kept.begin(), on_device * kCols, std::numeric_limits<float>::quiet_NaN());
  HybridLayer layer;
  layer.device.up = whole.weight;
  layer.host.up = matrix_of(kept);
  layer.device.up_bias = layer.host.up_bias = whole.bias;
  layer.first_on_host = on_device;
  NeuronLayer neurons;
  neurons.hybrid = &layer;
  const FfnWorkspace work(device, spec, {}, kSplitTokens);

  SplitProduct split(cpu, spec);
  split.reserve(kSplitTokens);
  split.run({.backend = device,
             .work = work,
             .layer = 0,
             .neurons = neurons,
             .normed = x.data(),
             .x = nullptr,
             .n_tokens = kSplitTokens,
             .out = nullptr},
            &FfnNeurons::up, &FfnNeurons::up_bias, found.data());
  CHECK(same_bits(found, expected));
}

}  // namespace
}  // namespace hearth::test
