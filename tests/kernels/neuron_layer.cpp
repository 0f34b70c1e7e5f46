// Makes random layers, and computes the plain definition of sparse FFNs.
#include "tests/kernels/neuron_layer.h"

#include <cmath>
#include <cstring>

#include "kernels/quant/dequantize.h"
#include "kernels/quant/half.h"

namespace hearth::test {
namespace {

std::vector<float> random_floats(int64_t n, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) value = normal(rng);
  return x;
}

float factor(const CodedColumns& coded, const std::byte* table, int64_t j, int64_t c) {
  const int64_t at = j / coded.group * coded.n_cols_padded + c;
  if (coded.half_scales) {
    uint16_t half;
    std::memcpy(&half, table + 2 * at, sizeof half);
    return float_from_half(half);
  }
  float value;
  std::memcpy(&value, table + 4 * at, sizeof value);
  return value;
}

int code(const CodedColumns& coded, int64_t j, int64_t c) {
  const std::byte* codes = coded.codes + static_cast<size_t>(j) * coded.stride;
  if (coded.bits == 8) return static_cast<int8_t>(codes[c]);
  const int byte = static_cast<int>(codes[c / 32 * 16 + c % 16]);
  return (c % 32 < 16 ? byte & 15 : byte >> 4) - coded.offset;
}

/// One token's sum over the active neurons [begin, end) for column c.
float range_sum(const DownColumns& down, const std::vector<std::vector<float>>& weights, const float* values,
                const NeuronSet& set, int t, int64_t begin, int64_t end, int64_t c) {
  const auto active = [&](int64_t j) { return set.wants(t, j) && values[j] != 0.0f; };
  float sum = 0.0f;
  if (down.rows) {
    for (int64_t j = begin; j < end; ++j) {
      if (active(j)) sum = std::fma(values[j], weights[static_cast<size_t>(j)][static_cast<size_t>(c)], sum);
    }
    return sum;
  }
  const CodedColumns& coded = down.coded;
  for (int64_t first = begin; first < end; first += coded.group) {
    float dot = 0.0f, total = 0.0f;
    bool any = false;
    for (int64_t j = first; j < std::min(end, first + coded.group); ++j) {
      if (!active(j)) continue;
      any = true;
      dot = std::fma(values[j], static_cast<float>(code(coded, j, c)), dot);
      total += values[j];
    }
    if (!any) continue;
    sum = std::fma(factor(coded, coded.scales, first, c), dot, sum);
    if (coded.mins != nullptr) sum = std::fma(total, factor(coded, coded.mins, first, c), sum);
  }
  return sum;
}

}  // namespace

Layer random_layer(const LayerShape& shape, std::mt19937& rng) {
  Layer layer;
  layer.shape = shape;
  layer.gate = random_matrix(shape.type, shape.d_ff, shape.d_model, rng);
  layer.up = random_matrix(shape.type, shape.d_ff, shape.d_model, rng);
  layer.down = random_matrix(shape.down_type, shape.d_ff, shape.d_model, rng);
  FfnNeurons& ffn = layer.ffn;
  ffn.gate = layer.gate.view;
  if (shape.gated) ffn.up = layer.up.view;
  ffn.down.rows = layer.down.view;
  ffn.down.n_neurons = shape.d_ff;
  ffn.down.n_cols = shape.d_model;
  if (shape.bundled) {
    // Some bytes lie between the neurons, so that nothing is aligned.
    const size_t up_at = ffn.gate.stride_bytes(), down_at = 2 * up_at;
    const size_t stride = down_at + ffn.down.rows.stride_bytes() + 3;
    layer.bundles.resize(stride * static_cast<size_t>(shape.d_ff));
    size_t offset = 0;
    for (Matrix* matrix : {&ffn.gate, &ffn.up, &ffn.down.rows}) {
      if (!*matrix) continue;
      for (int64_t j = 0; j < shape.d_ff; ++j) {
        std::memcpy(layer.bundles.data() + offset + static_cast<size_t>(j) * stride, matrix->row(j),
                    row_bytes(matrix->dtype, matrix->n_cols));
      }
      matrix->data = layer.bundles.data() + offset;
      matrix->row_stride = stride;
      offset = offset == 0 ? up_at : down_at;
    }
  }
  if (shape.biases) {
    layer.gate_bias = random_floats(shape.d_ff, rng);
    layer.up_bias = random_floats(shape.d_ff, rng);
    layer.down_bias = random_floats(shape.d_model, rng);
    ffn.gate_bias = layer.gate_bias.data();
    if (shape.gated) ffn.up_bias = layer.up_bias.data();
    ffn.down.bias = layer.down_bias.data();
  }
  return layer;
}

NeuronSet random_set(int n_tokens, int64_t n_neurons, double share, std::mt19937& rng) {
  NeuronSet set;
  set.reserve(n_tokens, n_neurons);
  set.clear(n_tokens, n_neurons);
  std::bernoulli_distribution wants(share);
  for (int t = 0; t < n_tokens; ++t) {
    for (int64_t j = 0; j < n_neurons; ++j) {
      if (wants(rng)) set.wanted(t)[j / 64] |= uint64_t{1} << (j % 64);
    }
  }
  set.collect();
  return set;
}

void reference_down(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                    float* out) {
  std::vector<std::vector<float>> weights(static_cast<size_t>(down.n_neurons));
  for (int64_t j = 0; j < down.n_neurons && down.rows; ++j) {
    std::vector<float>& row = weights[static_cast<size_t>(j)];
    row.resize(static_cast<size_t>(down.n_cols));
    dequantize_row(down.rows.dtype, down.rows.row(j), down.n_cols, row.data());
  }
  const int64_t range = neuron_range(down.n_neurons);
  for (int t = 0; t < n_tokens; ++t) {
    const float* own = values + t * down.n_neurons;
    for (int64_t begin = 0; begin < down.n_neurons; begin += range) {
      const int64_t end = std::min(begin + range, down.n_neurons);
      bool any = false;
      for (int64_t j = begin; j < end; ++j) any |= set.wants(t, j) && own[j] != 0.0f;
      for (int64_t c = 0; c < down.n_cols && any; ++c) {
        out[t * down.n_cols + c] += range_sum(down, weights, own, set, t, begin, end, c);
      }
    }
    for (int64_t c = 0; c < down.n_cols && down.bias != nullptr; ++c)
      out[t * down.n_cols + c] += down.bias[c];
  }
}

std::vector<float> dense_values(CpuBackend& backend, const FfnNeurons& ffn, const std::vector<float>& x,
                                int n_tokens) {
  const int64_t d_ff = ffn.gate.n_rows, n = n_tokens * d_ff;
  std::vector<float> gates(static_cast<size_t>(n)), ups(gates.size(), 1.0f);
  const Product gate{ffn.gate, ffn.gate_bias, gates.data(), d_ff, false};
  backend.matmul(x.data(), n_tokens, {&gate, 1});
  if (ffn.up) {
    const Product up{ffn.up, ffn.up_bias, ups.data(), d_ff, false};
    backend.matmul(x.data(), n_tokens, {&up, 1});
  }
  backend.gated_activation(ffn.activation, gates.data(), ups.data(), n, ups.data());
  return ups;
}

}  // namespace hearth::test
