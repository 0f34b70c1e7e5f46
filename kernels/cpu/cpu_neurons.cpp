// CpuBackend's sparse FFN.
//
// Order of a token's sums, whatever threads, batch and lists: neurons are cut into ranges of kNeuronRange;
// within a range, sum = fma(value_j, w_jc, sum) over its neurons in ascending order, from 0; then out_c +=
// sum, range by range, and the bias last. w is the weight as dequantised to float. A neuron that a token does
// not want adds nothing.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/half.h"

namespace hearth {
namespace {

constexpr int64_t kNeuronRange = 256;
constexpr int64_t kStrip = 256;  // columns dequantised at a time: one block of the largest types

/// Columns [begin, begin + n) of neuron j's down column, as floats.
void dequantize_strip(const DownColumns& down, int64_t j, int64_t begin, int64_t n, float* out) {
  if (down.rows) {
    const std::byte* at = down.rows.row(j) + row_bytes(down.rows.dtype, begin);
    dequantize_row(down.rows.dtype, at, n, out);
    return;
  }
  const CodedColumns& coded = down.coded;
  const auto factor = [&](const std::byte* table, int64_t c) {
    const int64_t at = j / coded.group * coded.n_cols_padded + c;
    if (coded.half_scales) {
      uint16_t half;
      std::memcpy(&half, table + 2 * at, 2);
      return float_from_half(half);
    }
    float value;
    std::memcpy(&value, table + 4 * at, 4);
    return value;
  };
  const std::byte* codes = coded.codes + static_cast<size_t>(j) * coded.stride;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = begin + i;
    const int byte = static_cast<int>(coded.bits == 8 ? codes[c] : codes[c / 32 * 16 + c % 16]);
    const int code = coded.bits == 8 ? static_cast<int8_t>(byte) : (c % 32 < 16 ? byte & 15 : byte >> 4);
    const float scaled = factor(coded.scales, c) * static_cast<float>(code);
    out[i] = coded.mins == nullptr ? scaled : scaled + factor(coded.mins, c);
  }
}

}  // namespace

void CpuBackend::select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                                float at_least, NeuronSet& set) {
  set.clear(n_tokens, n_neurons);
  for (int t = 0; t < n_tokens; ++t) {
    const float* row = values + t * n_neurons;
    uint64_t* bits = set.wanted(t);
    for (int64_t j = 0; j < n_neurons; ++j) {
      const float score = sizes == nullptr ? row[j] : std::fabs(row[j]) * sizes[j];
      if (!(score < at_least)) bits[j / 64] |= uint64_t{1} << (j % 64);
    }
  }
  set.collect();
}

void CpuBackend::ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                             const float* gates, float* out, NeuronCounts& counts) {
  const int64_t d_ff = ffn.gate.n_rows;
  const std::span<const int32_t> ids = set.ids();
  const std::byte* quantized = quantize(x, n_tokens, ffn.gate.n_cols);
  // The product of one row with every token.
  const auto row_product = [&](const Matrix& weight, const float* bias, int32_t j, float* result) {
    MatmulArgs args{.weight = &weight,
                    .row_begin = j,
                    .row_end = j + 1,
                    .x = x,
                    .quantized = quantized,
                    .n_tokens = n_tokens,
                    .bias = bias,
                    .out = result - j,
                    .out_stride = 1};
    matmul_.multiply[static_cast<size_t>(weight.dtype)](args);
  };
  std::vector<float> gate(static_cast<size_t>(n_tokens)), up(gate.size());
  float* values = values_.floats();
  for (const int32_t j : ids) {
    if (gates == nullptr) {
      row_product(ffn.gate, ffn.gate_bias, j, gate.data());
      ++counts.gate_rows;
    }
    bool any = false;
    for (int t = 0; t < n_tokens; ++t) {
      float& g = gate[static_cast<size_t>(t)];
      if (gates != nullptr) g = gates[t * d_ff + j];
      const float one = 1.0f;
      vector_.gated_activation(ffn.activation, &g, &one, 1, &values[t * d_ff + j]);
      const bool passes = set.wants(t, j) && values[t * d_ff + j] != 0.0f;
      counts.passed += passes ? 1 : 0;
      any |= passes;
    }
    if (!any || !ffn.up) continue;
    row_product(ffn.up, ffn.up_bias, j, up.data());
    ++counts.up_rows;
    for (int t = 0; t < n_tokens; ++t) {
      const float g = gate[static_cast<size_t>(t)];
      vector_.gated_activation(ffn.activation, &g, &up[static_cast<size_t>(t)], 1, &values[t * d_ff + j]);
    }
  }
  down_neurons(ffn.down, values, n_tokens, set, out, counts);
}

void CpuBackend::down_neurons(const DownColumns& down, const float* values, int n_tokens,
                              const NeuronSet& set, float* out, NeuronCounts& counts) {
  const std::span<const int32_t> ids = set.ids();
  const auto wanted_value = [&](int t, int32_t j) {
    return set.wants(t, j) ? values[t * down.n_neurons + j] : 0.0f;
  };
  for (const int32_t j : ids) {
    bool any = false;
    for (int t = 0; t < n_tokens; ++t) {
      if (set.wants(t, j)) ++counts.proposed;
      if (wanted_value(t, j) == 0.0f) continue;
      any = true;
      ++counts.active;
      if (counts.hits != nullptr) ++counts.hits[j];
    }
    if (any) ++counts.down_rows;
  }
  pool_.for_each_chunk((down.n_cols + kStrip - 1) / kStrip, 1, [&](int64_t strip, int64_t, int) {
    const int64_t begin = strip * kStrip, n = std::min(kStrip, down.n_cols - begin);
    std::array<float, kStrip> weights, sum;
    for (int t = 0; t < n_tokens; ++t) {
      float* to = out + t * down.n_cols + begin;
      for (size_t i = 0; i < ids.size();) {
        const int64_t end = (ids[i] / kNeuronRange + 1) * kNeuronRange;
        sum.fill(0.0f);
        for (; i < ids.size() && ids[i] < end; ++i) {
          const float value = wanted_value(t, ids[i]);
          if (value == 0.0f) continue;
          dequantize_strip(down, ids[i], begin, n, weights.data());
          for (int64_t c = 0; c < n; ++c) {
            sum[static_cast<size_t>(c)] =
                std::fma(value, weights[static_cast<size_t>(c)], sum[static_cast<size_t>(c)]);
          }
        }
        for (int64_t c = 0; c < n; ++c) to[c] += sum[static_cast<size_t>(c)];
      }
      if (down.bias == nullptr) continue;
      for (int64_t c = 0; c < n; ++c) to[c] += down.bias[begin + c];
    }
  });
}

}  // namespace hearth
