// See the header.
#include "engine/neurons/down_sizes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <system_error>
#include <thread>

#include "kernels/quant/dequantize.h"

namespace hearth {

void down_sizes(const LayerWeights& layer, int64_t d_model, int64_t d_ff, float* sizes) {
  const size_t n = static_cast<size_t>(d_ff);
  if (const Matrix& rows = layer.down_rows.weight) {
    std::vector<float> row(static_cast<size_t>(d_model));
    for (int64_t j = 0; j < d_ff; ++j) {
      dequantize_row(rows.dtype, rows.row(j), d_model, row.data());
      float sum = 0;
      for (const float weight : row) sum += weight * weight;
      sizes[j] = std::sqrt(sum);
    }
    return;
  }
  std::fill_n(sizes, n, 0.0f);
  std::vector<float> row(n);
  for (int64_t c = 0; c < d_model; ++c) {
    dequantize_row(layer.down.weight.dtype, layer.down.weight.row(c), d_ff, row.data());
    for (size_t j = 0; j < n; ++j) sizes[j] += row[j] * row[j];
  }
  for (size_t j = 0; j < n; ++j) sizes[j] = std::sqrt(sizes[j]);
}

std::vector<float> down_sizes(const Weights& weights, int64_t d_model, int64_t d_ff, int n_threads) {
  const size_t n_layers = weights.layers.size();
  std::vector<float> sizes(n_layers * static_cast<size_t>(d_ff));
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < n_layers; i = next++) {
      down_sizes(weights.layers[i], d_model, d_ff, sizes.data() + i * static_cast<size_t>(d_ff));
    }
  };
  std::vector<std::jthread> helpers;
  // If no helper thread can be started, the calling thread does all the work.
  try {
    for (int t = 1; t < n_threads; ++t) helpers.emplace_back(work);
  } catch (const std::system_error&) {
  }
  work();
  return sizes;
}

}  // namespace hearth
