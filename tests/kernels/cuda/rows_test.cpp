// Operations on rows and elements: they have the CPU backend's bits.
#include <limits>
#include <random>

#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cuda/ops/ops.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/cuda/quantized_output.h"
#include "tests/support/catch.h"
#include "tests/support/reference_ops.h"

namespace {

using namespace hearth;
using test::DeviceArray;

// Sizes around the 16 lanes and 64 chains of a sum and the 8192 floats of a piece, and sizes of models.
const std::vector<int64_t> kSizes = {1,  2,  3,   15,  16,  17,   31,   48,   63,   64,
                                     65, 79, 127, 130, 576, 1000, 4096, 8192, 8193, 16500};

// Covers a norm's few roundings and a sum over 64 chains: vector_kernels_test.cpp has this bound for 1000
// columns. A chain of 16500 / 64 terms is 17 times as long, and its error grows no faster.
constexpr double kNormTolerance = 1e-5;

std::vector<float> normal_numbers(int64_t n, unsigned seed, float mean = 0.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, 1.0f);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(random);
  return out;
}

double worst_error(const float* ours, const std::vector<double>& expected, double floor) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(double{ours[i]} - expected[i]) / (std::abs(expected[i]) + floor);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

TEST_CASE("norms and activations quantize their results as quantize() does") {
  test::for_each_schedule([&] {
    const test::TestStream stream;
    for (int64_t n : {32, 64, 288, 2080, 4096, 8224, 16512}) {
      for (int64_t n_rows : {1, 3}) {
        INFO(n_rows << " rows of " << n << " columns");
        std::vector<float> x = normal_numbers(n * n_rows, 1, 0.5f);
        x[5] = 1e30f;  // a span in which most values become 0
        const std::vector<float> weight = normal_numbers(n, 2, 1.0f), bias = normal_numbers(n, 3);
        const DeviceArray<float> on_device(x), weights(weight), biases(bias), out(x.size()), plain(x.size());
        const auto check = [&](const auto& run) {
          const test::QuantizedOutput quantized(n * n_rows);
          run(out.data(), quantized.view());
          run(plain.data(), cuda::QuantizedActivations{});
          REQUIRE(test::different(out.read(stream), plain.read(stream)) == 0);
          REQUIRE(quantized.is_of(out.data(), stream));
        };
        check([&](float* to, const cuda::QuantizedActivations& quantized) {
          cuda::rms_norm(on_device.data(), weights.data(), 1e-5f, n_rows, n, to, 1, stream, quantized);
        });
        check([&](float* to, const cuda::QuantizedActivations& quantized) {
          cuda::layer_norm(on_device.data(), weights.data(), biases.data(), 1e-5f, n_rows, n, to, 1, stream,
                           quantized);
        });
        check([&](float* to, const cuda::QuantizedActivations& quantized) {
          cuda::gated_activation({Activation::kRelu}, on_device.data(), nullptr, n * n_rows, to, stream,
                                 quantized);
        });
        check([&](float* to, const cuda::QuantizedActivations& quantized) {
          cuda::gated_activation({Activation::kSilu}, on_device.data(), on_device.data(), n * n_rows, to,
                                 stream, quantized);
        });
      }
    }
  });
}

TEST_CASE("add adds every element and nothing beyond them") {
  for (size_t n : {0, 1, 255, 256, 257, 1000}) {
    std::vector<float> x(n), out(n);
    for (size_t i = 0; i < n; ++i) {
      x[i] = 0.1f * static_cast<float>(i);
      out[i] = 1.0f - static_cast<float>(i);
    }
    const test::TestStream stream;
    const DeviceArray<float> on_device(x), result(out);
    cuda::add(on_device.data(), static_cast<int64_t>(n), result.data(), stream);
    for (size_t i = 0; i < n; ++i) out[i] += x[i];
    REQUIRE(result.read(stream) == out);
  }
}

TEST_CASE("rms_norm has the CPU's bits at every length, in place too") {
  constexpr int64_t kRows = 2;
  test::for_each_schedule([&] {
    const test::TestStream stream;
    for (int64_t n : kSizes) {
      INFO(n << " columns");
      const std::vector<float> x = normal_numbers(n * kRows, 1), weight = normal_numbers(n, 2, 1.0f);
      const DeviceArray<float> on_device(x), weights(weight), result(x.size());
      cuda::rms_norm(on_device.data(), weights.data(), 1e-5f, kRows, n, result.data(), 1, stream);
      const std::vector<float> out = result.read(stream);
      cuda::rms_norm(on_device.data(), weights.data(), 1e-5f, kRows, n, on_device.data(), 1, stream);
      REQUIRE(test::different(on_device.read(stream), out) == 0);
      for (int64_t r = 0; r < kRows; ++r) {
        const std::vector<double> expected =
            testing::reference_rms_norm(x.data() + r * n, weight.data(), 1e-5, n);
        REQUIRE(worst_error(out.data() + r * n, expected, 0) < kNormTolerance);
      }
      if (!test::fused_isa()) continue;
      std::vector<float> on_cpu(x.size());
      for (int64_t r = 0; r < kRows; ++r) {
        vector_kernels(*test::fused_isa())
            .rms_norm(x.data() + r * n, weight.data(), 1e-5f, n, on_cpu.data() + r * n);
      }
      REQUIRE(test::different(out, on_cpu) == 0);
    }
  });
}

TEST_CASE("rows are matched and cut with the CPU's bits at every length") {
  constexpr int64_t kRows = 2;
  test::for_each_schedule([&] {
    const test::TestStream stream;
    for (int64_t n : kSizes) {
      INFO(n << " columns");
      std::vector<float> x = normal_numbers(n * kRows, 1, 3.0f);
      const std::vector<float> to = normal_numbers(n * kRows, 2);
      const DeviceArray<float> targets(to), matched(x), cut(x);
      cuda::match_rows(targets.data(), 1e-5f, kRows, n, matched.data(), stream);
      cuda::cut_rows(0.5f, kRows, n, cut.data(), stream);
      const std::vector<float> matched_rows = matched.read(stream), cut_rows = cut.read(stream);
      std::vector<float> matched_on_cpu = x, cut_on_cpu = x;
      for (int64_t r = 0; r < kRows; ++r) {
        const int64_t at = r * n;
        REQUIRE(worst_error(matched_rows.data() + at,
                            testing::reference_match_row(to.data() + at, 1e-5, x.data() + at, n),
                            0) < kNormTolerance);
        REQUIRE(worst_error(cut_rows.data() + at, testing::reference_cut_row(0.5, x.data() + at, n), 4.0) <
                kNormTolerance);
        if (!test::fused_isa()) continue;
        const VectorKernels& cpu = vector_kernels(*test::fused_isa());
        cpu.match_row(to.data() + at, 1e-5f, n, matched_on_cpu.data() + at);
        cpu.cut_row(0.5f, n, cut_on_cpu.data() + at);
      }
      if (!test::fused_isa()) continue;
      REQUIRE(test::different(matched_rows, matched_on_cpu) == 0);
      REQUIRE(test::different(cut_rows, cut_on_cpu) == 0);
    }
  });
}

TEST_CASE("rows of zeros, and rows with NaNs, are matched and cut as on the CPU") {
  if (!test::fused_isa()) return;
  const VectorKernels& cpu = vector_kernels(*test::fused_isa());
  const test::TestStream stream;
  const std::vector<float> to = normal_numbers(70, 2);
  for (const float bad : {0.0f, 1e-6f, -0.0f, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(70, 0.0f);
    x[7] = bad;
    const DeviceArray<float> targets(to), matched(x), cut(x);
    cuda::match_rows(targets.data(), 1e-5f, 1, 70, matched.data(), stream);
    cuda::cut_rows(0.0f, 1, 70, cut.data(), stream);
    std::vector<float> matched_on_cpu = x;
    cpu.match_row(to.data(), 1e-5f, 70, matched_on_cpu.data());
    cpu.cut_row(0.0f, 70, x.data());
    INFO("a row of zeros with " << bad);
    CHECK(test::different(matched.read(stream), matched_on_cpu) == 0);
    CHECK(test::different(cut.read(stream), x) == 0);
  }
}

TEST_CASE("mix_rows adds rows with weights of their own, and the CPU's bits") {
  const test::TestStream stream;
  for (const int64_t n_cols : {1, 31, 576}) {
    for (const int64_t n_rows : {0, 1, 5}) {
      for (const int n_added : {1, 4}) {
        constexpr int kSums = 4;
        const int64_t stride = n_rows * n_cols + 3;
        const std::vector<float> x = normal_numbers(kSums * stride, 1),
                                 added = normal_numbers(n_added * stride, 2),
                                 weights = normal_numbers(n_rows * kSums * n_added, 3);
        const DeviceArray<float> xs(x), others(added), factors(weights), result(x);
        cuda::mix_rows(
            {xs.data(), others.data(), factors.data(), result.data(), kSums, n_added, stride, n_rows, n_cols},
            stream);
        const std::vector<float> out = result.read(stream);
        std::vector<float> on_cpu = x;  // what lies between the arrays does not change
        const MixedRows call{x.data(), added.data(), weights.data(), on_cpu.data(), kSums,
                             n_added,  stride,       n_rows,         n_cols};
        INFO(n_rows << " rows of " << n_cols << ", " << n_added << " added");
        for (int s = 0; s < kSums; ++s) {
          for (int64_t r = 0; r < n_rows; ++r) {
            const int64_t at = s * stride + r * n_cols;
            REQUIRE(worst_error(out.data() + at, testing::reference_mixed_row(call, s, r), 1.0) < 1e-6);
            if (!test::fused_isa()) continue;
            vector_kernels(*test::fused_isa())
                .mix_row(x.data() + at, added.data() + r * n_cols, stride,
                         weights.data() + (r * kSums + s) * n_added, n_added, n_cols, on_cpu.data() + at);
          }
        }
        if (test::fused_isa()) REQUIRE(test::different(out, on_cpu) == 0);
      }
    }
  }
}

TEST_CASE("layer_norm has the CPU's bits at every length, with a bias and without, in place too") {
  constexpr int64_t kRows = 2;
  test::for_each_schedule([&] {
    const test::TestStream stream;
    for (int64_t n : kSizes) {
      const std::vector<float> x = normal_numbers(n * kRows, 1, 3.0f), weight = normal_numbers(n, 2, 1.0f),
                               bias = normal_numbers(n, 3);
      const DeviceArray<float> on_device(x), weights(weight), biases(bias), result(x.size());
      for (bool with_bias : {true, false}) {
        INFO(n << " columns, bias " << with_bias);
        const float* b = with_bias ? bias.data() : nullptr;
        cuda::layer_norm(on_device.data(), weights.data(), with_bias ? biases.data() : nullptr, 1e-5f, kRows,
                         n, result.data(), 1, stream);
        const std::vector<float> out = result.read(stream);
        for (int64_t r = 0; r < kRows; ++r) {
          const std::vector<double> expected =
              testing::reference_layer_norm(x.data() + r * n, weight.data(), b, 1e-5, n);
          // Inputs are about 3 in size, and their rounding errors remain when the mean is subtracted. The
          // mean of a single number has no rounding error.
          REQUIRE(worst_error(out.data() + r * n, expected, n == 1 ? 1e3 : 4.0) < kNormTolerance);
        }
        if (!with_bias) {
          cuda::layer_norm(on_device.data(), weights.data(), nullptr, 1e-5f, kRows, n, on_device.data(), 1,
                           stream);
          REQUIRE(test::different(on_device.read(stream), out) == 0);
        }
        if (!test::fused_isa()) continue;
        std::vector<float> on_cpu(x.size());
        for (int64_t r = 0; r < kRows; ++r) {
          vector_kernels(*test::fused_isa())
              .layer_norm(x.data() + r * n, weight.data(), b, 1e-5f, n, on_cpu.data() + r * n);
        }
        REQUIRE(test::different(out, on_cpu) == 0);
      }
    }
  });
}

TEST_CASE("norms take rows of weights in turn, with the bits of each row alone") {
  constexpr int64_t kRows = 14, kWeights = 4;
  test::for_each_schedule([&] {
    const test::TestStream stream;
    for (int64_t n : {1, 16, 128, 300}) {
      const std::vector<float> x = normal_numbers(n * kRows, 1),
                               weight = normal_numbers(n * kWeights, 2, 1.0f),
                               bias = normal_numbers(n * kWeights, 3);
      const DeviceArray<float> on_device(x), weights(weight), biases(bias), rms(x.size()), layer(x.size()),
          one(x.size());
      cuda::rms_norm(on_device.data(), weights.data(), 1e-5f, kRows, n, rms.data(), kWeights, stream);
      cuda::layer_norm(on_device.data(), weights.data(), biases.data(), 1e-5f, kRows, n, layer.data(),
                       kWeights, stream);
      for (const bool is_rms : {true, false}) {
        for (int64_t r = 0; r < kRows; ++r) {
          const int64_t from = r * n, w = r % kWeights * n;
          if (is_rms) {
            cuda::rms_norm(on_device.data() + from, weights.data() + w, 1e-5f, 1, n, one.data() + from, 1,
                           stream);
          } else {
            cuda::layer_norm(on_device.data() + from, weights.data() + w, biases.data() + w, 1e-5f, 1, n,
                             one.data() + from, 1, stream);
          }
        }
        INFO(n << " columns");
        REQUIRE(test::different((is_rms ? rms : layer).read(stream), one.read(stream)) == 0);
      }
    }
  });
}

// Numbers of every size and sign, zeros, subnormals, infinities, NaNs and the ends of exp's range.
std::vector<float> all_kinds_of_numbers(size_t n, unsigned seed) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {0.0f,     -0.0f,   1e-42f, -1e-42f, 1e-30f, -1e-30f, 0.5f,    0.50000006f,
                          -0.5f,    20.0f,   -20.0f, 87.32f,  87.33f, 87.34f,  -87.33f, -87.34f,
                          88.37f,   88.38f,  -88.4f, 100.0f,  -100.f, 1e10f,   -1e10f,  3e38f,
                          -3e38f,   inf,     -inf,   nan,     -nan,   1e-8f,   -1e-8f,  0.4999999f,
                          0.34657f, -9.699f, 9.601f, -13.57f};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  while (x.size() < n) {
    const float size = std::ldexp(1.0f, static_cast<int>(random() % 24) - 16);
    x.push_back(normal(random) * size);
  }
  x.resize(n);
  return x;
}

constexpr FfnActivation kClamped{.kind = Activation::kSwigluClamped, .limit = 1.5f};
constexpr FfnActivation kXieluSmall{.kind = Activation::kXielu,
                                    .xielu = {.alpha_p = 0.8f, .alpha_n = 0.6f, .beta = 0.5f}};
constexpr FfnActivation kXieluWide{
    .kind = Activation::kXielu, .xielu = {.alpha_p = 3.1f, .alpha_n = 0.02f, .beta = -0.25f, .eps = -0.75f}};

TEST_CASE("every activation has the CPU's bits, from zero to infinity") {
  const test::TestStream stream;
  for (FfnActivation act : {FfnActivation{Activation::kSilu}, FfnActivation{Activation::kGelu},
                            FfnActivation{Activation::kGeluErf}, FfnActivation{Activation::kRelu},
                            FfnActivation{Activation::kRelu, 0.5f}, FfnActivation{Activation::kRelu2},
                            FfnActivation{Activation::kDRelu}, FfnActivation{Activation::kSwigluOai},
                            FfnActivation{Activation::kSigmoid}, FfnActivation{Activation::kIdentity},
                            FfnActivation{Activation::kSoftplus}, kClamped, kXieluSmall, kXieluWide}) {
    for (size_t n : {0, 1, 15, 17, 255, 256, 257, 20000}) {
      const std::vector<float> gate = all_kinds_of_numbers(n, 5), up = normal_numbers(int64_t(n), 6);
      const DeviceArray<float> gates(gate), ups(up), result(n);
      for (bool with_up : {true, false}) {
        if (!with_up && (act.kind == Activation::kDRelu || act.kind == Activation::kSwigluOai)) continue;
        INFO("activation " << static_cast<int>(act.kind) << ", " << n << " elements, up " << with_up);
        cuda::gated_activation(act, gates.data(), with_up ? ups.data() : nullptr, static_cast<int64_t>(n),
                               result.data(), stream);
        const std::vector<float> out = result.read(stream);
        for (size_t i = 0; i < n; ++i) REQUIRE((!std::isnan(gate[i]) || std::isnan(out[i])));
        if (!test::fused_isa()) continue;
        std::vector<float> on_cpu(n);
        vector_kernels(*test::fused_isa())
            .gated_activation(act, gate.data(), with_up ? up.data() : nullptr, static_cast<int64_t>(n),
                              on_cpu.data());
        REQUIRE(test::different(out, on_cpu) == 0);
      }
    }
  }
}

TEST_CASE("activations are those of a double reference") {
  const test::TestStream stream;
  const std::vector<float> gate = normal_numbers(3000, 7), up = normal_numbers(3000, 8);
  const DeviceArray<float> gates(gate), ups(up), result(gate.size());
  for (const FfnActivation act : {FfnActivation{Activation::kSilu}, FfnActivation{Activation::kGelu},
                                  FfnActivation{Activation::kGeluErf}, FfnActivation{Activation::kRelu},
                                  FfnActivation{Activation::kRelu2}, FfnActivation{Activation::kDRelu},
                                  FfnActivation{Activation::kSwigluOai}, FfnActivation{Activation::kSigmoid},
                                  FfnActivation{Activation::kIdentity}, FfnActivation{Activation::kSoftplus},
                                  kClamped, kXieluSmall, kXieluWide}) {
    cuda::gated_activation(act, gates.data(), ups.data(), 3000, result.data(), stream);
    const std::vector<float> out = result.read(stream);
    for (size_t i = 0; i < out.size(); ++i) {
      const double expected = testing::reference_gated(act, gate[i], up[i]);
      INFO("activation " << static_cast<int>(act.kind) << " of " << gate[i]);
      // The largest bound that vector_kernels_test.cpp justifies: an argument of exp rounded three times, or
      // digits that cancel in the tail.
      const double size = std::abs(expected) + 0.05 * std::abs(double{gate[i]} * up[i]);
      REQUIRE(std::abs(double{out[i]} - expected) <= 1e-5 * size);
    }
  }
}

TEST_CASE("scale_rows multiplies each row by its factor, and scale_columns each column") {
  const test::TestStream stream;
  for (const int64_t n_cols : {1, 31, 256}) {
    for (const int64_t n_rows : {0, 1, 9}) {
      std::vector<float> x = normal_numbers(n_rows * n_cols, 12);
      const std::vector<float> factors = normal_numbers(n_rows, 13);
      const DeviceArray<float> on_device(factors), result(x);
      cuda::scale_rows(on_device.data(), n_rows, n_cols, result.data(), stream);
      for (size_t i = 0; i < x.size(); ++i) x[i] *= factors[i / static_cast<size_t>(n_cols)];
      REQUIRE(test::different(result.read(stream), x) == 0);
      const std::vector<float> of_columns = normal_numbers(n_cols, 14);
      const DeviceArray<float> columns(of_columns);
      cuda::scale_columns(columns.data(), n_rows, n_cols, result.data(), stream);
      for (size_t i = 0; i < x.size(); ++i) x[i] *= of_columns[i % static_cast<size_t>(n_cols)];
      REQUIRE(test::different(result.read(stream), x) == 0);
    }
  }
}

TEST_CASE("gather_rows takes the requested rows, repeated ones too") {
  const test::TestStream stream;
  for (int64_t n_cols : {1, 31, 256, 257, 576}) {
    const std::vector<float> x = normal_numbers(7 * n_cols, 9);
    const DeviceArray<float> on_device(x);
    for (const std::vector<int32_t>& rows : std::vector<std::vector<int32_t>>{{}, {6}, {3, 0, 3, 6, 1}}) {
      const DeviceArray<int32_t> wanted(rows);
      const auto n = static_cast<int64_t>(rows.size());
      const DeviceArray<float> result(static_cast<size_t>(n * n_cols));
      cuda::gather_rows(on_device.data(), n_cols, wanted.data(), n, result.data(), stream);
      std::vector<float> expected;
      for (int32_t row : rows)
        expected.insert(expected.end(), &x[0] + row * n_cols, &x[0] + (row + 1) * n_cols);
      REQUIRE(test::different(result.read(stream), expected) == 0);
    }
  }
}

TEST_CASE("copy_rows moves rows from one stride to another, and nothing between them") {
  const test::TestStream stream;
  for (const int64_t n_cols : {1, 31, 256, 576}) {
    for (const int64_t n_rows : {0, 1, 7}) {
      const int64_t stride = n_cols + 3, out_stride = n_cols + 5;
      const std::vector<float> x = normal_numbers(7 * stride, 10);
      std::vector<float> expected = normal_numbers(7 * out_stride, 11);
      const DeviceArray<float> on_device(x), result(expected);
      cuda::copy_rows(on_device.data() + 2, stride, n_rows, n_cols, result.data() + 1, out_stride, stream);
      for (int64_t r = 0; r < n_rows; ++r) {
        std::copy_n(x.begin() + 2 + r * stride, n_cols, expected.begin() + 1 + r * out_stride);
      }
      REQUIRE(test::different(result.read(stream), expected) == 0);
    }
  }
}

}  // namespace
