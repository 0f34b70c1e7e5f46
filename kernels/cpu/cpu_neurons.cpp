// CpuBackend's sparse FFN: which of the ways of sparse_ffn.h a step takes.
#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/cpu/cpu_backend.h"

namespace hearth {

NeuronSetId CpuBackend::make_set() {
  const NeuronSetId id = next_set(sets_.size(), static_cast<size_t>(bounds_.n_sets));
  sets_.emplace_back().reserve(bounds_.max_tokens, bounds_.max_cols);
  return id;
}

void CpuBackend::select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                                float at_least, NeuronSet& set) {
  sparse_.select(values, sizes, n_tokens, n_neurons, at_least, set);
}

void CpuBackend::ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                             const float* gates, float* out, NeuronCounts& counts) {
  if (integer_sums_) {
    const NeuronSums sums = cleared_sums(n_tokens, ffn.down.n_cols);
    ffn_neuron_sums(ffn, x, n_tokens, set, gates, sums, counts);
    return add_sums(sums, ffn.down.bias, n_tokens, ffn.down.n_cols, out);
  }
  counts.proposed += set.count();
  if (n_tokens <= few_tokens_) {
    const std::byte* quantized = quantized_for(ffn, x, n_tokens, gates);
    sparse_.ffn_few(ffn, x, quantized, n_tokens, set, gates, out, counts);
    return;
  }
  const NeuronSet& passed = values_of_many(ffn, x, n_tokens, set, gates, counts);
  sparse_.down_many(ffn.down, sparse_.values(), n_tokens, passed, out, counts);
}

void CpuBackend::ffn_neuron_sums(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                                 const float* gates, const NeuronSums& sums, NeuronCounts& counts) {
  counts.proposed += set.count();
  if (n_tokens <= few_tokens_) {
    const std::byte* quantized = quantized_for(ffn, x, n_tokens, gates);
    sparse_.ffn_few_sums(ffn, x, quantized, n_tokens, set, gates, sums, counts);
    return;
  }
  const NeuronSet& passed = values_of_many(ffn, x, n_tokens, set, gates, counts);
  sparse_.down_many_sums(ffn.down, sparse_.values(), n_tokens, passed, sums, counts);
}

NeuronSums CpuBackend::cleared_sums(int n_tokens, int64_t n_cols) {
  const NeuronSums sums{reinterpret_cast<int64_t*>(sums_.floats()), poison_.data()};
  std::fill_n(sums.sums, n_tokens * n_cols, int64_t{0});
  std::fill_n(sums.poison, n_tokens, 0);
  return sums;
}

/// out += the sums (+ bias), each rounded to a float; not a number where poisoned.
void CpuBackend::add_sums(const NeuronSums& sums, const float* bias, int n_tokens, int64_t n_cols,
                          float* out) {
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (int64_t i = t * n_cols, c = 0; c < n_cols; ++i, ++c) {
      float sum = static_cast<float>(sums.sums[i]) * 0x1p-36f;
      if (sums.poison[t] != 0) sum = std::numeric_limits<float>::quiet_NaN();
      out[i] += sum;
      if (bias != nullptr) out[i] += bias[c];
    }
  }
}

/// x quantised if the FFN's few tokens need it so, else null.
const std::byte* CpuBackend::quantized_for(const FfnNeurons& ffn, const float* x, int n_tokens,
                                           const float* gates) {
  const bool needed = (gates == nullptr && uses_quantized_activations(ffn.gate.dtype)) ||
                      (ffn.up && uses_quantized_activations(ffn.up.dtype));
  return needed ? quantize(x, n_tokens, ffn.gate.n_cols) : nullptr;
}

/// Fills sparse_.values() for many tokens; of which neurons is returned.
const NeuronSet& CpuBackend::values_of_many(const FfnNeurons& ffn, const float* x, int n_tokens,
                                            const NeuronSet& set, const float* gates, NeuronCounts& counts) {
  if (gates == nullptr) {
    counts.gate_rows += multiply_neurons(ffn.gate, ffn.gate_bias, x, n_tokens, set, sparse_.gates());
    gates = sparse_.gates();
  }
  const NeuronSet& passed = sparse_.pass_gates(ffn, gates, n_tokens, set, counts);
  if (!ffn.up) return passed;
  float* values = sparse_.values();
  counts.up_rows += multiply_neurons(ffn.up, ffn.up_bias, x, n_tokens, passed, values);
  gated_activation(ffn.activation, gates, values, n_tokens * ffn.gate.n_rows, values);
  return passed;
}

void CpuBackend::down_neurons(const DownColumns& down, const float* values, int n_tokens,
                              const NeuronSet& set, float* out, NeuronCounts& counts) {
  if (integer_sums_) {
    const NeuronSums sums = cleared_sums(n_tokens, down.n_cols);
    down_neuron_sums(down, values, n_tokens, set, sums, counts);
    return add_sums(sums, down.bias, n_tokens, down.n_cols, out);
  }
  counts.proposed += set.count();
  if (n_tokens <= few_tokens_) {
    sparse_.down_few(down, values, n_tokens, set, out, counts);
  } else {
    sparse_.down_many(down, values, n_tokens, set, out, counts);
  }
}

void CpuBackend::down_neuron_sums(const DownColumns& down, const float* values, int n_tokens,
                                  const NeuronSet& set, const NeuronSums& sums, NeuronCounts& counts) {
  counts.proposed += set.count();
  if (n_tokens <= few_tokens_) {
    sparse_.down_few_sums(down, values, n_tokens, set, sums, counts);
  } else {
    sparse_.down_many_sums(down, values, n_tokens, set, sums, counts);
  }
}

/// out [n_tokens, n_rows] = products of x with the rows of the set's neurons; what lies between them may be
/// anything. Returns the rows read.
int64_t CpuBackend::multiply_neurons(const Matrix& weight, const float* bias, const float* x, int n_tokens,
                                     const NeuronSet& set, float* out) {
  const std::span<const int32_t> ids = set.ids();
  const int64_t n_rows = weight.n_rows, n_listed = static_cast<int64_t>(ids.size());
  if (!lists_rows(weight, x, n_tokens, ids)) {
    const Product all{weight, bias, out, n_rows, false};
    matmul(x, n_tokens, {&all, 1});
    return n_rows;
  }
  float* products = sparse_.products();
  const Product listed{weight, bias, products, n_listed, false, ids};
  matmul(x, n_tokens, {&listed, 1});
  pool_.for_each_chunk(n_tokens, row_grain(n_listed), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (size_t i = 0; i < ids.size(); ++i)
        out[t * n_rows + ids[i]] = products[t * n_listed + static_cast<int64_t>(i)];
    }
  });
  return n_listed;
}

/// Whether the rows of a list are multiplied alone, or with all others of the weight.
bool CpuBackend::lists_rows(const Matrix& weight, const float* x, int n_tokens,
                            std::span<const int32_t> ids) {
  if (row_choice_ != RowChoice::kMeasured) return row_choice_ == RowChoice::kListed;
  const int64_t n_listed = static_cast<int64_t>(ids.size());
  if (n_listed == weight.n_rows) return false;
  if (2 * n_listed <= weight.n_rows) return true;
  const int tokens =
      std::min(static_cast<int>(std::bit_floor(static_cast<unsigned>(n_tokens))), RowCost::kTokens);
  const int64_t n = std::min(RowCost::kRows, n_listed);
  Product all{weight, nullptr, sparse_.products(), n, false};
  all.weight.n_rows = n;
  const Product listed{weight, nullptr, sparse_.products(), n, false, ids.first(static_cast<size_t>(n))};
  const double ratio = row_cost_.ratio(
      weight.dtype, weight.n_cols, tokens,
      [&] {
        matmul(x, tokens, {&all, 1});
      },
      [&] {
        matmul(x, tokens, {&listed, 1});
      });
  return static_cast<double>(n_listed) * ratio < static_cast<double>(weight.n_rows);
}

}  // namespace hearth
