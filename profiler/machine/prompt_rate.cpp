// Implements prompt_rate().
#include "profiler/machine/prompt_rate.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "kernels/quant/quantize.h"

namespace hearth {
namespace {

constexpr int64_t kPromptCols = 4096;  // the width of a 7B model
constexpr DType kPromptType = DType::kQ4_0;

struct ProductShape {
  int n_tokens;
  int64_t n_rows;
};
// The shapes that prompt_rate() tries, from small to large. On an emulated device, the first shape takes some
// tenths of a second. The last shape keeps a real GPU busy. The last two shapes have 512 tokens, like a step
// of a long prompt.
constexpr ProductShape kShapes[] = {{16, 64}, {64, 256}, {512, 1024}, {512, 4096}};
constexpr ProductShape kLargest = kShapes[std::size(kShapes) - 1];

constexpr double kLongEnoughSeconds = 5e-3;  // compared with this, the fixed cost of a call is negligible
constexpr double kTooLongSeconds = 0.15;     // for one pass
constexpr int kMaxCalls = 64;
constexpr int kPromptPasses = 3;

double multiply_adds(const ProductShape& shape) {
  return static_cast<double>(shape.n_tokens) * static_cast<double>(shape.n_rows) *
         static_cast<double>(kPromptCols);
}

/// Returns the seconds that n_calls products take, one after the other.
double seconds_of(Backend& backend, const ProductShape& shape, const Product& product, const float* x,
                  int n_calls, double (*now)()) {
  const double begin = now();
  for (int call = 0; call < n_calls; ++call) backend.matmul(x, shape.n_tokens, {&product, 1});
  backend.finish();
  return now() - begin;
}

}  // namespace

StepBounds prompt_rate_bounds() {
  StepBounds bounds;
  bounds.max_tokens = kLargest.n_tokens;
  bounds.max_cols = kPromptCols;
  return bounds;
}

size_t prompt_rate_bytes() {
  const auto n_tokens = static_cast<size_t>(kLargest.n_tokens);
  return piece_bytes(row_bytes(kPromptType, kPromptCols) * static_cast<size_t>(kLargest.n_rows)) +
         piece_bytes(n_tokens * static_cast<size_t>(kPromptCols) * sizeof(float)) +
         piece_bytes(n_tokens * static_cast<size_t>(kLargest.n_rows) * sizeof(float));
}

double prompt_rate(Backend& backend, double (*now)()) {
  // 1. Make random weights and activations. Their values do not affect the time, but zeros might draw less
  //    power and so allow a higher clock rate.
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(kLargest.n_tokens * kPromptCols));
  for (float& value : x) value = normal(random);
  const size_t row = row_bytes(kPromptType, kPromptCols);
  std::vector<std::byte> rows(row * static_cast<size_t>(kLargest.n_rows));
  for (size_t at = 0; at < rows.size(); at += row) {
    quantize_row(kPromptType, x.data() + at / row % static_cast<size_t>(kLargest.n_tokens) * kPromptCols,
                 kPromptCols, rows.data() + at);
  }

  // 2. Copy the weights and activations to the backend's memory.
  const Buffer in = backend.allocate(x.size() * sizeof(float));
  const Buffer out =
      backend.allocate(static_cast<size_t>(kLargest.n_tokens * kLargest.n_rows) * sizeof(float));
  backend.from_host(x.data(), x.size(), in.floats());
  const Matrix weight = backend.resident(Matrix{rows.data(), kPromptType, kLargest.n_rows, kPromptCols});

  // 3. Try larger and larger steps until a step takes too long.
  double rate = 0;
  for (const ProductShape& shape : kShapes) {
    if (rate > 0 && multiply_adds(shape) / rate > kTooLongSeconds) break;
    Product product;
    product.weight = weight;
    product.weight.n_rows = shape.n_rows;
    product.out = out.floats();
    product.out_stride = shape.n_rows;
    const double once = seconds_of(backend, shape, product, in.floats(), 1, now);
    const int n_calls = std::clamp(static_cast<int>(kLongEnoughSeconds / std::max(once, 1e-9)), 1, kMaxCalls);
    // Find the time of the fastest pass. The pass that took `once` is one of them, because no further pass
    // runs if `once` is too long.
    double best = once;
    for (int pass = 0; pass < kPromptPasses && once < kTooLongSeconds; ++pass) {
      best = std::min(best, seconds_of(backend, shape, product, in.floats(), n_calls, now) / n_calls);
    }
    rate = multiply_adds(shape) / std::max(best, 1e-9);
  }
  return rate;
}

}  // namespace hearth
