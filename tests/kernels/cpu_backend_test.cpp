// The CPU backend's operations as the engine calls them: correct, with equal bits for any number of threads
// and whatever else is in the batch, and without allocation.
#include "kernels/cpu/cpu_backend.h"

#include <cmath>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>
#include <string>

#include "kernels/quant/dequantize.h"
#include "kernels/quant/half.h"
#include "tests/support/catch.h"
#include "tests/support/reference_ops.h"
#include "tests/support/same_bits.h"

namespace hearth {
namespace {

const std::vector<int> kThreadCounts = {1, 2, 3, 5};

std::vector<float> normal_numbers(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(random);
  return out;
}

/// A weight matrix that owns its bytes: random codes, small scales.
struct Weight {
  Weight(DType type, int64_t n_rows, int64_t n_cols, unsigned seed) : matrix{nullptr, type, n_rows, n_cols} {
    std::mt19937 random(seed);
    bytes.resize(matrix.bytes());
    if (type == DType::kF32) {
      const std::vector<float> numbers = normal_numbers(n_rows * n_cols, seed);
      std::memcpy(bytes.data(), numbers.data(), bytes.size());
    } else {
      for (std::byte& b : bytes) b = static_cast<std::byte>(random());
      // Q4_1 begins a block with scale and minimum, Q8_0 with a scale.
      const size_t block = static_cast<size_t>(dtype_info(type).block_bytes);
      const size_t n_halves = type == DType::kQ4_1 ? 2 : 1;
      for (size_t at = 0; at < bytes.size(); at += block) {
        for (size_t i = 0; i < n_halves; ++i) {
          const uint16_t half = half_from_float(0.01f + 1e-4f * static_cast<float>(random() % 100));
          std::memcpy(bytes.data() + at + 2 * i, &half, 2);
        }
      }
    }
    matrix.data = bytes.data();
  }
  Matrix matrix;
  std::vector<std::byte> bytes;
};

/// Runs op with 1, 2, 3 and 5 threads on each ISA and checks that its results have equal bits.
/// op(CpuBackend&) returns the result.
template <class Op>
void check_same_bits_on_any_threads(Op&& op) {
  for (Isa isa : supported_isas()) {
    std::vector<float> first;
    for (int n_threads : kThreadCounts) {
      CpuBackend backend(n_threads, isa);
      backend.reserve({256, 4096, 8, 64});
      const std::vector<float> out = op(backend);
      if (n_threads == 1) first = out;
      INFO(isa_name(isa) << ", " << n_threads << " threads");
      CHECK(same_bits(out, first));
    }
  }
}

}  // namespace

TEST_CASE("the backend describes itself and refuses impossible options", "[cpu_backend]") {
  CHECK(CpuBackend(1, Isa::kScalar, ActivationBits::k15, 0.0).description() == "CPU scalar, 1 thread");
  CHECK(CpuBackend(3, Isa::kScalar, ActivationBits::k15, 0.0).description() == "CPU scalar, 3 threads");
  CHECK(CpuBackend(1, Isa::kScalar, ActivationBits::k8, 0.0).description() ==
        "CPU scalar, 1 thread, 8-bit activations");
  CHECK(CpuBackend(3, Isa::kScalar, ActivationBits::k15, 3.0).description() == "CPU scalar, 3 threads");
  CHECK(CpuBackend(3, Isa::kScalar, ActivationBits::k15, 2.25).description() ==
        "CPU scalar, 3 threads within the cgroup's quota of 2.25 CPUs");
  CHECK(CpuBackend(1, Isa::kScalar, ActivationBits::k15, 0.5).description() ==
        "CPU scalar, 1 thread within the cgroup's quota of 0.5 CPUs");
  CHECK_THROWS_AS(CpuBackend(0, Isa::kScalar), std::invalid_argument);
  const std::vector<Isa> supported = supported_isas();
  for (Isa isa : kAllIsas) {
    if (std::ranges::find(supported, isa) != supported.end()) continue;
    CHECK_THROWS_AS(CpuBackend(1, isa), std::invalid_argument);
  }
}

TEST_CASE("memory is aligned, zeroed and freed by its last owner", "[cpu_backend]") {
  CpuBackend backend(1, Isa::kScalar);
  CHECK(backend.allocate(0).bytes() == 0);
  Buffer a = backend.allocate(1000);
  REQUIRE(a.bytes() == 1000);
  CHECK(reinterpret_cast<uintptr_t>(a.floats()) % 64 == 0);
  for (int i = 0; i < 250; ++i) REQUIRE(a.floats()[i] == 0.0f);
  float* data = a.floats();
  Buffer b = std::move(a);
  b = backend.allocate(8);
  CHECK(b.floats() != nullptr);
  CHECK(b.bytes() == 8);
  CHECK(data != nullptr);
  CHECK_THROWS_AS(backend.allocate(size_t{1} << 62), std::bad_alloc);
}

TEST_CASE("matmul gives each product what its weight's kernel gives", "[cpu_backend]") {
  const int64_t n_cols = 256;
  const Weight a(DType::kQ4_1, 300, n_cols, 1), b(DType::kQ8_0, 17, n_cols, 2), c(DType::kF32, 1, n_cols, 3);
  const std::vector<float> bias = normal_numbers(300, 4);
  for (Isa isa : supported_isas()) {
    for (int n_threads : kThreadCounts) {
      CpuBackend backend(n_threads, isa);
      backend.reserve({200, n_cols, 4, 16});
      for (int n_tokens : {1, 2, 5, 33, 200}) {
        const std::vector<float> x = normal_numbers(n_tokens * n_cols, 5);
        const int64_t stride = 330;  // rows are not adjacent
        const std::vector<float> before = normal_numbers(n_tokens * stride, 6);
        std::vector<float> out = before, expected = before;
        const std::vector<Product> products = {
            {a.matrix, bias.data(), out.data(), stride, false},
            {b.matrix, nullptr, out.data() + 300, stride, true},
            {c.matrix, nullptr, out.data() + 317, stride, false},
        };
        backend.matmul(x.data(), n_tokens, products);

        const MatmulKernels& kernels = matmul_kernels(isa);
        const size_t row_bytes = activation_row_bytes(n_cols);
        const Buffer quantized = backend.allocate(row_bytes * static_cast<size_t>(n_tokens));
        std::byte* rows = reinterpret_cast<std::byte*>(quantized.floats());
        for (int t = 0; t < n_tokens; ++t) {
          kernels.quantize(x.data() + t * n_cols, n_cols, rows + static_cast<size_t>(t) * row_bytes);
        }
        for (const Product& p : products) {
          MatmulArgs args;
          args.weight = &p.weight;
          args.row_end = p.weight.n_rows;
          args.x = x.data();
          args.quantized = rows;
          args.n_tokens = n_tokens;
          args.bias = p.bias;
          args.out = expected.data() + (p.out - out.data());
          args.out_stride = stride;
          args.accumulate = p.accumulate;
          kernels.multiply[static_cast<size_t>(p.weight.dtype)](args);
        }
        INFO(isa_name(isa) << ", " << n_threads << " threads, " << n_tokens << " tokens");
        CHECK(same_bits(out, expected));
      }
    }
  }
}

TEST_CASE("matmul multiplies: float weights against doubles", "[cpu_backend]") {
  const int64_t n_cols = 96;
  const Weight w(DType::kF32, 40, n_cols, 1);
  const std::vector<float> x = normal_numbers(3 * n_cols, 2);
  const float* weights = reinterpret_cast<const float*>(w.bytes.data());
  for (Isa isa : supported_isas()) {
    CpuBackend backend(2, isa);
    backend.reserve({3, n_cols, 1, 16});
    std::vector<float> out(3 * 40);
    backend.matmul(x.data(), 3, std::vector<Product>{{w.matrix, nullptr, out.data(), 40, false}});
    double worst = 0;
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t r = 0; r < 40; ++r) {
        double dot = 0;
        for (int64_t i = 0; i < n_cols; ++i)
          dot += double{x[static_cast<size_t>(t * n_cols + i)]} * double{weights[r * n_cols + i]};
        worst = std::max(worst, std::abs(dot - double{out[static_cast<size_t>(t * 40 + r)]}));
      }
    }
    INFO(isa_name(isa));
    CHECK(worst < 2e-5);  // 96 terms of size 1, each rounded to 6e-8 of a sum of about 10
  }
}

TEST_CASE("matmul: a token gets the same bits alone and in a batch, on any threads", "[cpu_backend]") {
  // There are few long rows: tokens come in several tiles, and threads share both rows and tiles.
  const int64_t n_cols = 4096, n_rows = 50;
  const Weight w(DType::kQ4_1, n_rows, n_cols, 1);
  const int n_tokens = 150;
  const std::vector<float> x = normal_numbers(n_tokens * n_cols, 2);
  check_same_bits_on_any_threads([&](CpuBackend& backend) {
    std::vector<float> out(static_cast<size_t>(n_tokens * n_rows)), alone(static_cast<size_t>(n_rows));
    backend.matmul(x.data(), n_tokens, std::vector<Product>{{w.matrix, nullptr, out.data(), n_rows, false}});
    for (int t : {0, 1, 77, 149}) {
      backend.matmul(x.data() + t * n_cols, 1,
                     std::vector<Product>{{w.matrix, nullptr, alone.data(), n_rows, false}});
      CHECK(std::memcmp(alone.data(), out.data() + t * n_rows, alone.size() * sizeof(float)) == 0);
    }
    return out;
  });
}

TEST_CASE("each head is multiplied by its own weights, with the bits of packed rows", "[cpu_backend]") {
  const DType type = GENERATE(DType::kF32, DType::kQ8_0, DType::kQ4_1);
  const int n_tokens = GENERATE(0, 1, 2, 7);
  // Heads of 24 rows with 8 other rows between them; x has 5 other numbers before a head's part and 3 after
  // it.
  constexpr int64_t kHeads = 6, kRows = 24, kApart = 32, kCols = 64, kXHead = 5 + kCols + 3,
                    kOutHead = kRows + 2;
  const Weight weight(type, kHeads * kApart, kCols, 17);
  const std::vector<float> x = normal_numbers(n_tokens * kHeads * kXHead, 18);
  StepBounds bounds{256, 4096, kHeads, 64};
  bounds.head_cols = kCols;
  for (const Isa isa : supported_isas()) {
    CpuBackend backend(3, isa);
    backend.reserve(bounds);
    std::vector<float> out(static_cast<size_t>(n_tokens * kHeads * kOutHead), 7.0f), expected = out;
    backend.multiply_heads({.weight = {weight.matrix.data, type, kRows, kCols},
                            .rows_apart = kApart,
                            .n_heads = kHeads,
                            .x = x.data() + 5,
                            .x_stride = kHeads * kXHead,
                            .x_head_stride = kXHead,
                            .out = out.data(),
                            .out_stride = kHeads * kOutHead,
                            .out_head_stride = kOutHead},
                           n_tokens);
    std::vector<float> packed(static_cast<size_t>(n_tokens * kCols));
    for (int64_t h = 0; h < kHeads; ++h) {
      backend.copy_rows(x.data() + 5 + h * kXHead, kHeads * kXHead, n_tokens, kCols, packed.data(), kCols);
      CHECK(
          (n_tokens == 0 ||
           packed.back() == x[static_cast<size_t>(((n_tokens - 1) * kHeads + h) * kXHead + 5 + kCols - 1)]));
      const Product product{.weight = {weight.matrix.row(h * kApart), type, kRows, kCols},
                            .out = expected.data() + h * kOutHead,
                            .out_stride = kHeads * kOutHead};
      backend.matmul(packed.data(), n_tokens, {&product, 1});
    }
    INFO(isa_name(isa) << " " << dtype_info(type).name << ", " << n_tokens << " tokens");
    CHECK(same_bits(out, expected));
  }
}

TEST_CASE("embed dequantizes the requested rows", "[cpu_backend]") {
  const Weight table(DType::kQ8_0, 50, 96, 1);
  const std::vector<int32_t> tokens = {49, 0, 7, 7};
  for (int n_threads : kThreadCounts) {
    CpuBackend backend(n_threads, supported_isas().front());
    std::vector<float> out(4 * 96, NAN), expected(4 * 96);
    backend.embed(table.matrix, tokens, out.data());
    for (size_t i = 0; i < tokens.size(); ++i) {
      dequantize_row(DType::kQ8_0, table.matrix.row(tokens[i]), 96, expected.data() + 96 * i);
    }
    CHECK(same_bits(out, expected));
  }
  CpuBackend(1, Isa::kScalar).embed(table.matrix, {}, nullptr);
}

TEST_CASE("gather_rows copies the requested rows", "[cpu_backend]") {
  const std::vector<float> x = normal_numbers(100 * 37, 1);
  std::vector<int32_t> rows;
  for (int i = 0; i < 300; ++i) rows.push_back(i * 7 % 100);
  CpuBackend backend(3, Isa::kScalar);
  std::vector<float> out(300 * 37, NAN);
  backend.gather_rows(x.data(), 37, rows, out.data());
  bool right = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    right &= std::memcmp(out.data() + 37 * i, x.data() + 37 * rows[i], 37 * sizeof(float)) == 0;
  }
  CHECK(right);
  backend.gather_rows(x.data(), 37, {}, nullptr);
}

TEST_CASE("add adds element by element, and nothing beyond them", "[cpu_backend]") {
  const int64_t n = 100'003;  // more than one thread's piece
  const std::vector<float> x = normal_numbers(n, 1), y = normal_numbers(n + 1, 2);
  for (const int n_threads : kThreadCounts) {
    CpuBackend backend(n_threads, Isa::kScalar);
    std::vector<float> out = y;
    backend.add(x.data(), n, out.data());
    backend.add(x.data(), 0, nullptr);
    bool right = out.back() == y.back();
    for (size_t i = 0; i < x.size(); ++i) right &= out[i] == y[i] + x[i];
    CHECK(right);
  }
}

TEST_CASE("norms and activations have the same bits on any threads", "[cpu_backend]") {
  const int64_t n_rows = 200, n_cols = 333;
  const std::vector<float> x = normal_numbers(n_rows * n_cols, 1), y = normal_numbers(n_rows * n_cols, 2);
  check_same_bits_on_any_threads([&](CpuBackend& backend) {
    std::vector<float> out(3 * x.size());
    backend.rms_norm(x.data(), y.data(), 1e-5f, n_rows, n_cols, out.data());
    backend.layer_norm(x.data(), y.data(), y.data() + 400, 1e-5f, n_rows, n_cols, out.data() + x.size());
    backend.gated_activation({Activation::kSilu}, x.data(), y.data(), n_rows * n_cols,
                             out.data() + 2 * x.size());
    // Compute the last row alone.
    std::vector<float> row(static_cast<size_t>(n_cols));
    backend.rms_norm(x.data() + 199 * n_cols, y.data(), 1e-5f, 1, n_cols, row.data());
    CHECK(std::memcmp(row.data(), out.data() + 199 * n_cols, row.size() * sizeof(float)) == 0);
    backend.gated_activation({Activation::kSilu}, x.data(), y.data(), 0, nullptr);
    backend.rms_norm(x.data(), y.data(), 1e-5f, 0, n_cols, nullptr);
    return out;
  });
}

TEST_CASE("rows are cut, matched, mixed and scaled with the same bits on any threads", "[cpu_backend]") {
  const int64_t n_rows = 150, n_cols = 333, stride = n_rows * n_cols + 7;
  const int n_sums = 3, n_added = 2;
  const std::vector<float> x = normal_numbers(n_sums * stride, 1),
                           added = normal_numbers(n_added * stride, 2),
                           weights = normal_numbers(n_rows * n_sums * n_added, 3);
  check_same_bits_on_any_threads([&](CpuBackend& backend) {
    std::vector<float> out(x.size()), cut = x, matched = x, scaled = x;
    const MixedRows mixed{x.data(), added.data(), weights.data(), out.data(), n_sums,
                          n_added,  stride,       n_rows,         n_cols};
    backend.mix_rows(mixed);
    backend.cut_rows(0.5f, n_rows, n_cols, cut.data());
    backend.match_rows(added.data(), 1e-5f, n_rows, n_cols, matched.data());
    backend.scale_columns(weights.data(), n_rows, n_cols, scaled.data());
    for (const int64_t row : {int64_t{0}, n_rows - 1}) {
      const auto at = static_cast<size_t>(row * n_cols + 5);
      for (int s = 0; s < n_sums; ++s) {
        const double expected = testing::reference_mixed_row(mixed, s, row)[5];
        CHECK(std::abs(out[static_cast<size_t>(s * stride) + at] - expected) < 1e-5);
      }
      const float* const of_row = x.data() + row * n_cols;
      CHECK(std::abs(cut[at] - testing::reference_cut_row(0.5, of_row, n_cols)[5]) < 1e-5);
      const float* const to = added.data() + row * n_cols;
      CHECK(std::abs(matched[at] - testing::reference_match_row(to, 1e-5, of_row, n_cols)[5]) < 1e-5);
      CHECK(scaled[at] == x[at] * weights[5]);
    }
    backend.mix_rows({.n_sums = 3, .n_added = 2, .n_cols = n_cols});  // no rows
    for (const std::vector<float>* more : {&cut, &matched, &scaled})
      out.insert(out.end(), more->begin(), more->end());
    return out;
  });
}

TEST_CASE("norms take rows of weights in turn", "[cpu_backend]") {
  const int64_t n_rows = 203, n_cols = 96, n_weights = 8;
  const std::vector<float> x = normal_numbers(n_rows * n_cols, 1),
                           weight = normal_numbers(n_weights * n_cols, 2),
                           bias = normal_numbers(n_weights * n_cols, 3);
  check_same_bits_on_any_threads([&](CpuBackend& backend) {
    std::vector<float> rms(x.size()), layer(x.size()), plain(x.size()), one(static_cast<size_t>(n_cols));
    backend.rms_norm(x.data(), weight.data(), 1e-5f, n_rows, n_cols, rms.data(), n_weights);
    backend.layer_norm(x.data(), weight.data(), bias.data(), 1e-5f, n_rows, n_cols, layer.data(), n_weights);
    backend.layer_norm(x.data(), weight.data(), nullptr, 1e-5f, n_rows, n_cols, plain.data(), n_weights);
    bool same = true;
    for (int64_t r = 0; r < n_rows; ++r) {
      const int64_t at = r % n_weights * n_cols;
      const auto is_one = [&](const std::vector<float>& all) {
        return std::memcmp(one.data(), all.data() + r * n_cols, one.size() * sizeof(float)) == 0;
      };
      backend.rms_norm(x.data() + r * n_cols, weight.data() + at, 1e-5f, 1, n_cols, one.data());
      same = same && is_one(rms);
      backend.layer_norm(x.data() + r * n_cols, weight.data() + at, bias.data() + at, 1e-5f, 1, n_cols,
                         one.data());
      same = same && is_one(layer);
      backend.layer_norm(x.data() + r * n_cols, weight.data() + at, nullptr, 1e-5f, 1, n_cols, one.data());
      same = same && is_one(plain);
    }
    CHECK(same);
    rms.insert(rms.end(), layer.begin(), layer.end());
    return rms;
  });
}

TEST_CASE("rope is right at any position, up to the longest contexts", "[cpu_backend]") {
  const int head_dim = 64, n_heads = 3;
  std::vector<float> inv_freq;
  for (int i = 0; i < 32; ++i) inv_freq.push_back(std::pow(10000.0f, static_cast<float>(-2 * i) / 64.0f));
  std::vector<int32_t> positions = {0, 1, 2, 100, 4095, 65537, 131071, 131072};
  const int64_t stride = 3 * 64 + 10;
  for (Isa isa : supported_isas()) {
    for (RopeKind kind : {RopeKind::kHalves, RopeKind::kInterleaved}) {
      CpuBackend backend(2, isa);
      backend.reserve({8, 3 * 64, 3, 131073});
      const Rope rope{kind, 64, inv_freq.data(), 1.0f};
      // Runs twice, the second time with other positions and frequencies: no outdated value may be kept.
      for (int turn = 0; turn < 2; ++turn) {
        std::vector<float> x = normal_numbers(8 * stride, 1);
        const std::vector<float> before = x;
        backend.rope(x.data(), stride, n_heads, head_dim, positions, rope);
        double worst = 0;
        for (size_t t = 0; t < positions.size(); ++t) {
          for (int h = 0; h < n_heads; ++h) {
            const size_t at = t * static_cast<size_t>(stride) + static_cast<size_t>(h * head_dim);
            const std::vector<double> expected =
                testing::reference_rope(before.data() + at, head_dim, positions[t], rope);
            for (size_t d = 0; d < expected.size(); ++d) {
              worst = std::max(worst, std::abs(double{x[at + d]} - expected[d]));
            }
          }
        }
        INFO(isa_name(isa) << ", turn " << turn);
        CHECK(worst < 1e-6);  // rounding of cosine, sine and the sum of numbers up to 4
        positions[3] = 101 + turn;
        inv_freq[5] *= 0.5f;
      }
    }
  }
  CpuBackend(1, Isa::kScalar).rope(nullptr, 0, 0, 0, positions, Rope{});
}

}  // namespace hearth
