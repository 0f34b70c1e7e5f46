// Tests which arrays have a quantized form. Products never read the form of an array's earlier contents.
#include "kernels/cuda/runtime/quantized_inputs.h"

#include <array>
#include <cstring>
#include <functional>

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::test {
namespace {

constexpr int64_t kCols = 128, kRows = 40;

/// A device with x in its memory, and a matrix to multiply it with.
struct Multiplied {
  explicit Multiplied(int tokens)
      : n_tokens(tokens),
        cpu(1, supported_isas().front()),
        device(cuda::make_device(cpu, {.budget_bytes = 16 << 20})) {
    const StepBounds bounds{.max_tokens = 32, .max_cols = 256, .d_model = kCols, .n_sets = 1};
    cpu.reserve(bounds);
    device->reserve(bounds);
    weight = random_matrix(DType::kQ4_0, kRows, kCols, rng);
    there = weight.view;
    there.data = backend().resident(weight.view.data, weight.bytes.size());
    for (Buffer* buffer : {&x, &other, &ones, &out}) *buffer = backend().allocate(sizeof(float) * kCols * 32);
    put(other);
    put(ones);
    put(x);
  }
  Backend& backend() { return device->backend(); }
  int64_t n() const { return n_tokens * kCols; }
  void put(const Buffer& to) {
    const std::vector<float> values = random_activations(n(), rng);
    backend().from_host(values.data(), values.size(), to.floats());
  }
  /// x's product on the device.
  void multiply() {
    backend().matmul(x.floats(), n_tokens,
                     std::array{Product{.weight = there, .out = out.floats(), .out_stride = kRows}});
  }
  /// The products of two heads of `other` with half of the matrix each.
  void multiply_heads(float* to, int64_t stride) {
    backend().multiply_heads({.weight = {there.data, there.dtype, kRows / 2, kCols},
                              .rows_apart = kRows / 2,
                              .n_heads = 2,
                              .x = other.floats(),
                              .x_stride = kCols,
                              .x_head_stride = 0,
                              .out = to,
                              .out_stride = stride,
                              .out_head_stride = kRows / 2},
                             n_tokens);
  }
  /// Returns whether the last product is that of the present x.
  bool is_right() {
    const auto n_out = static_cast<size_t>(n_tokens * kRows);
    const float* found = backend().to_host(out.floats(), n_out);
    const std::vector<float> ours(found, found + n_out);
    const float* now = backend().to_host(x.floats(), static_cast<size_t>(n()));
    const std::vector<float> values(now, now + n());
    std::vector<float> expected(n_out);
    cpu.matmul(values.data(), n_tokens,
               std::array{Product{.weight = weight.view, .out = expected.data(), .out_stride = kRows}});
    return different(ours, expected) == 0;
  }

  int n_tokens;
  std::mt19937 rng{3};
  CpuBackend cpu;
  std::unique_ptr<ComputeDevice> device;
  OwnedMatrix weight;
  Matrix there;
  Buffer x, other, ones, out;
};

}  // namespace

TEST_CASE("CUDA: a product uses the current input, whatever wrote it last") {
  for (int n_tokens : {1, 5, 32}) {
    Multiplied m(n_tokens);
    Backend& backend = m.backend();
    float *x = m.x.floats(), *other = m.other.floats(), *ones = m.ones.floats();
    const int64_t n = m.n();
    const std::vector<int32_t> rows(static_cast<size_t>(n_tokens), 0);
    const std::vector<float> inv_freq(16, 0.5f);
    const Rope rope{RopeKind::kHalves, 32, inv_freq.data(), 1.0f};
    const NeuronSetId set = backend.make_set();
    DownColumns down;
    down.rows = {m.there.data, DType::kQ4_0, kRows, kCols};
    down.n_neurons = kRows;
    down.n_cols = kCols;
    NeuronCounts counts;
    const std::vector<std::function<void()>> writers = {
        [&] { backend.add(other, n, x); },
        [&] { backend.copy(other, n, x); },
        [&] { backend.copy_rows(other, kCols, n_tokens, kCols / 2, x, kCols); },
        [&] { backend.zero(n / 2, x); },
        [&] { backend.scale(0.5f, n, x); },
        [&] { backend.scale_rows(ones, n_tokens, kCols, x); },
        [&] { backend.scale_columns(ones, n_tokens, kCols, x); },
        [&] {
          backend.mix_rows({.x = other,
                            .added = other,
                            .weights = ones,
                            .out = x,
                            .n_sums = 1,
                            .n_added = 1,
                            .n_rows = n_tokens,
                            .n_cols = kCols});
        },
        [&] { backend.match_rows(other, 1e-5f, n_tokens, kCols, x); },
        [&] { backend.cut_rows(0.5f, n_tokens, kCols, x); },
        [&] { backend.soft_cap(2.0f, n, x); },
        [&] { backend.rms_norm(other, ones, 1e-5f, n_tokens, kCols, x); },
        [&] { backend.rms_norm(x, ones, 1e-5f, 2 * n_tokens, kCols / 2, x); },
        [&] { backend.layer_norm(other, ones, nullptr, 1e-5f, n_tokens, kCols, x); },
        [&] { backend.gated_activation({Activation::kSilu}, other, ones, n, x); },
        [&] { backend.gated_activation({Activation::kRelu}, x, nullptr, n - 1, x); },
        [&] { backend.gather_rows(other, kCols, rows, x); },
        [&] { backend.embed(m.there, rows, x); },
        [&] { backend.rope(x, kCols, 4, 32, rows, rope); },
        [&] {
          backend.matmul(
              other, n_tokens,
              std::array{Product{.weight = m.there, .out = x + 3, .out_stride = kCols, .accumulate = true}});
        },
        [&] {
          backend.select_neurons(other, nullptr, n_tokens, kRows, -1e9f, set);
          backend.down_neurons(down, other, n_tokens, set, x, counts);
        },
        // For many tokens, products of heads quantize their inputs to Scratch::quantized, so they overwrite a
        // large array there.
        [&] { m.multiply_heads(x + 3, kCols); },
        [&] { m.multiply_heads(m.out.floats(), kRows); },
        [&] { m.put(m.x); },
    };
    for (size_t i = 0; i < writers.size(); ++i) {
      INFO(n_tokens << " tokens, writer " << i);
      m.device->begin_step({});
      m.multiply();
      writers[i]();
      m.multiply();
      REQUIRE(m.is_right());
      m.put(m.x);
    }
  }
}

TEST_CASE("CUDA: an input is quantized once for all its readers, by the norm that writes it if it can") {
  Multiplied m(1);
  const auto launches = [&](const auto& work) {
    m.device->begin_step({});
    m.backend().finish();
    cudaemu::reset_stats();
    work();
    m.backend().finish();
    return cudaemu::stats().launches;
  };
  CHECK(launches([&] { m.multiply(); }) == 2);
  CHECK(launches([&] {
          m.multiply();
          m.multiply();
        }) == 3);
  CHECK(launches([&] {
          m.backend().rms_norm(m.other.floats(), m.ones.floats(), 1e-5f, 1, kCols, m.x.floats());
          m.multiply();
        }) == 2);
  CHECK(m.is_right());
  // The host waited in between, and may have changed any array.
  CHECK(launches([&] {
          m.multiply();
          m.backend().finish();
          m.multiply();
        }) == 4);
}

TEST_CASE("the least recently used place of a quantized input is reused") {
  cuda::Arena counting;
  cuda::Scratch scratch(counting, {.max_tokens = 4, .max_cols = 64});
  cuda::QuantizedInputs inputs;
  inputs.reserve(scratch);
  std::vector<float> floats(1000);
  const auto x = [&](size_t i) { return floats.data() + 64 * i; };
  REQUIRE(inputs.keeps(4 * 64));
  REQUIRE_FALSE(inputs.keeps(5 * 64));
  for (size_t i = 0; i < 3; ++i) inputs.add(x(i), 64);
  CHECK(inputs.find(x(0), 64).high != nullptr);
  CHECK(inputs.find(x(0), 32).high == nullptr);
  inputs.add(x(3), 64);  // replaces 1
  CHECK(inputs.find(x(1), 64).high == nullptr);
  CHECK(inputs.find(x(2), 64).high != nullptr);
  inputs.written(x(2) + 63, 1);
  inputs.written(x(0) + 64, 64);
  CHECK(inputs.find(x(2), 64).high == nullptr);
  CHECK(inputs.find(x(0), 64).high != nullptr);
  inputs.forget();
  CHECK(inputs.find(x(0), 64).high == nullptr);
}

}  // namespace hearth::test
