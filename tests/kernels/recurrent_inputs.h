// The inputs of tests of recurrent layers (kernels/recurrent.h) on the CPU and on CUDA devices, and the
// double results that they should give.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/recurrent.h"
#include "tests/support/reference_recurrent.h"

namespace hearth::test {

inline constexpr double kEps = 1e-6;  // of the lengths of q and k

inline bool scans(const RecurrentShape& shape) { return shape.kind == RecurrentKind::kMamba2; }

/// The shape of a layer of Mamba-2 in the tests: n_groups, n_heads of head_dim, n_rows.
inline RecurrentShape scan_shape(int n_groups, int n_heads, int head_dim, int n_rows, int n_taps = 4) {
  return {n_groups, n_heads, head_dim, n_taps, /*tiled=*/false, n_rows, RecurrentKind::kMamba2};
}

inline const std::vector<RecurrentShape> kShapes = {
    {2, 6, 16, 4, true},                                  // three value heads per key head
    {2, 6, 20, 4, false},                                 // the last columns are padded
    {1, 3, 128, 4, true},      {2, 2, 16, 2, false},      // as many taps as possible, and few
    {1, 2, 33, 8, false},      scan_shape(2, 6, 16, 24),  // fewer columns than rows, and more
    scan_shape(1, 3, 64, 128), scan_shape(4, 4, 37, 18, 3)};

/// Layers whose rows of states have their own decays.
inline const std::vector<RecurrentShape> kRowDecays = {
    {.n_k_heads = 3, .n_v_heads = 3, .head_dim = 16, .n_taps = 4, .row_decays = true},
    {.n_k_heads = 2, .n_v_heads = 2, .head_dim = 37, .n_taps = 3, .row_decays = true},
    {.n_k_heads = 1, .n_v_heads = 1, .head_dim = 128, .n_taps = 4, .row_decays = true}};

inline const std::vector<RecurrentShape> kShortConvs = {
    {.n_taps = 3, .kind = RecurrentKind::kShortConv, .n_channels = 39},
    {.n_taps = 4, .kind = RecurrentKind::kShortConv, .n_channels = 1100}};

inline bool has_states(const RecurrentShape& shape) { return shape.kind != RecurrentKind::kShortConv; }

/// The first channel of the convolution that belongs to 'q', 'k' or 'v'.
inline int64_t first_channel(const RecurrentShape& shape, char part) {
  const std::string_view order = scans(shape) ? "vkq" : "qkv";
  const auto widths = shape.conv_parts();
  return std::accumulate(widths.begin(), widths.begin() + static_cast<int>(order.find(part)), int64_t{0});
}

inline std::vector<RecurrentShape> all_kinds() {
  std::vector<RecurrentShape> all = kShapes;
  all.insert(all.end(), kShortConvs.begin(), kShortConvs.end());
  all.insert(all.end(), kRowDecays.begin(), kRowDecays.end());
  return all;
}

inline std::string text(const RecurrentShape& shape) {
  if (!has_states(shape))
    return std::to_string(shape.n_channels) + " channels, " + std::to_string(shape.n_taps) + " taps";
  return std::to_string(shape.n_k_heads) + "/" + std::to_string(shape.n_v_heads) + " heads of " +
         std::to_string(shape.head_dim) +
         (scans(shape) ? " and " + std::to_string(shape.n_rows()) + " rows" : "") +
         (shape.row_decays ? " with decays of rows" : "") + (shape.tiled ? ", tiled, " : ", grouped, ") +
         std::to_string(shape.n_taps) + " taps";
}

inline std::vector<float> normal_numbers(int64_t n, unsigned seed, float deviation = 1.0f,
                                         float mean = 0.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(random);
  return out;
}

/// The results of a layer's projections for each token of a sequence.
struct Inputs {
  Inputs(const RecurrentShape& shape, int n_tokens, unsigned seed)
      : raw(normal_numbers(n_tokens * shape.conv_dim(), seed)),
        alpha(normal_numbers(n_tokens * shape.decay_dim(), seed + 1000)),
        beta(normal_numbers(int64_t{n_tokens} * shape.n_v_heads, seed + 2000)) {}

  std::vector<float> raw;          // [n_tokens, conv_dim]
  std::vector<float> alpha, beta;  // [n_tokens, decay_dim | n_v_heads]
};

/// The weights of a layer. Value head 0 forgets almost nothing, the others about 2 % to 25 % per token.
/// Layers with four taps have no biases.
struct Weights {
  explicit Weights(const RecurrentShape& shape)
      : bias(shape.n_taps == 4 ? std::vector<float>() : normal_numbers(shape.conv_dim(), 10, 0.5f)),
        taps(normal_numbers(shape.n_taps * shape.conv_dim(), 7, 0.5f)),
        dt(normal_numbers(shape.decay_dim(), 8, 1.0f, -1.0f)),
        skip(normal_numbers(shape.n_v_heads, 9)) {
    for (int64_t i = 0; i < shape.decay_dim(); ++i) {
      const int64_t h = i * shape.n_v_heads / shape.decay_dim();
      a.push_back(h == 0 ? -1e-5f : -0.02f * std::exp2f(static_cast<float>(h % 6)));
    }
  }

  std::vector<float> bias, taps, dt, a, skip;
};

/// The double results of a sequence, as rows of Layer::step().
inline std::vector<std::vector<double>> expected(const RecurrentShape& shape, const Inputs& sequence, int n,
                                                 testing::ReferenceRecurrent& reference) {
  const Weights weights(shape);
  std::vector<std::vector<double>> rows;
  for (int64_t t = 0; t < n; ++t) {
    std::vector<double> row =
        reference.convolve(sequence.raw.data() + t * shape.conv_dim(), weights.taps.data(), weights.bias);
    if (!has_states(shape)) {
      rows.push_back(std::move(row));
      continue;
    }
    double *const q = row.data() + first_channel(shape, 'q'), *const k =
                                                                  row.data() + first_channel(shape, 'k');
    double* const v = row.data() + first_channel(shape, 'v');
    if (!scans(shape)) {
      reference.normalize(kEps, 1.0 / std::sqrt(shape.head_dim), q);
      reference.normalize(kEps, 1.0, k);
    }
    std::vector<double> decay, beta, steps;
    for (size_t i = 0; i < static_cast<size_t>(shape.decay_dim()); ++i) {
      const size_t at = static_cast<size_t>(t * shape.decay_dim()) + i;
      steps.push_back(testing::reference_softplus(double{sequence.alpha[at]} + double{weights.dt[i]}));
      decay.push_back(std::exp(double{weights.a[i]} * steps.back()));
    }
    for (int h = 0; h < shape.n_v_heads; ++h) {
      const auto at = static_cast<size_t>(t * shape.n_v_heads + h);
      beta.push_back(scans(shape) ? steps[static_cast<size_t>(h)]
                                  : testing::reference_sigmoid(double{sequence.beta[at]}));
    }
    const std::vector<double> out =
        reference.advance(q, k, v, decay.data(), beta.data(), scans(shape) ? weights.skip.data() : nullptr);
    row.insert(row.end(), out.begin(), out.end());
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The largest difference between our elements [begin, end) of each row and the expected ones, relative to
/// the largest expected element; a NaN counts as infinite.
inline double worst_error(const std::vector<float>& ours, const std::vector<std::vector<double>>& expected,
                          int64_t begin, int64_t end) {
  double worst = 0, largest = 0;
  for (size_t t = 0; t < expected.size(); ++t) {
    for (size_t i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const double error = std::abs(double{ours[t * expected[t].size() + i]} - expected[t][i]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
      largest = std::max(largest, std::abs(expected[t][i]));
    }
  }
  return worst / largest;
}

}  // namespace hearth::test
