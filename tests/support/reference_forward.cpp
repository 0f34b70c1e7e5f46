// Implements the reference pass.
#include "tests/support/reference_forward.h"

#include <cmath>

#include "kernels/quant/dequantize.h"
#include "kernels/quant/half.h"
#include "tests/support/reference_ops.h"

namespace hearth::testing {
namespace {

using Row = std::vector<float>;

Row rounded(const std::vector<double>& values) { return Row(values.begin(), values.end()); }

Row matrix_row(const Matrix& matrix, int64_t r) {
  Row row(static_cast<size_t>(matrix.n_cols));
  dequantize_row(matrix.dtype, matrix.row(r), matrix.n_cols, row.data());
  return row;
}

Row product(const Linear& linear, const Row& x) {
  Row out;
  for (int64_t r = 0; r < linear.weight.n_rows; ++r) {
    const Row weights = matrix_row(linear.weight, r);
    double sum = linear.bias == nullptr ? 0.0 : double{linear.bias[r]};
    for (size_t i = 0; i < x.size(); ++i) sum += double{weights[i]} * double{x[i]};
    out.push_back(static_cast<float>(sum));
  }
  return out;
}

/// Like product(), for a matrix that is stored transposed.
Row product_of_rows(const Linear& linear, const Row& x) {
  std::vector<double> sums(static_cast<size_t>(linear.weight.n_cols));
  for (size_t c = 0; c < sums.size(); ++c) sums[c] = linear.bias == nullptr ? 0.0 : double{linear.bias[c]};
  for (size_t i = 0; i < x.size(); ++i) {
    const Row weights = matrix_row(linear.weight, static_cast<int64_t>(i));
    for (size_t c = 0; c < sums.size(); ++c) sums[c] += double{weights[c]} * double{x[i]};
  }
  return rounded(sums);
}

Row norm(const ModelSpec& spec, const Row& x, const NormWeights& w) {
  const int64_t n = static_cast<int64_t>(x.size());
  if (spec.arch.norm == NormKind::kLayer) {
    return rounded(reference_layer_norm(x.data(), w.scale, w.bias, double{spec.norm_eps}, n));
  }
  return rounded(reference_rms_norm(x.data(), w.scale, double{spec.norm_eps}, n));
}

/// Applies to each head the norm, if there is one, and then the rotation.
Row turned(const ModelSpec& spec, const Row& x, const float* head_norm, int64_t position, const Rope& rope) {
  Row out;
  const size_t head_dim = static_cast<size_t>(spec.head_dim);
  for (size_t begin = 0; begin < x.size(); begin += head_dim) {
    Row head(x.begin() + static_cast<std::ptrdiff_t>(begin),
             x.begin() + static_cast<std::ptrdiff_t>(begin + head_dim));
    if (head_norm != nullptr) {
      head = norm(spec, head, {head_norm, nullptr});
    }
    head = rounded(reference_rope(head.data(), spec.head_dim, position, rope));
    out.insert(out.end(), head.begin(), head.end());
  }
  return out;
}

void round_to_half(Row& row) {
  for (float& x : row) x = float_from_half(half_from_float(x));
}

/// Returns one token's attention over the keys and values so far, including its own.
Row attend(const ModelSpec& spec, const Row& q, const std::vector<Row>& keys,
           const std::vector<Row>& values) {
  Row out;
  for (int head = 0; head < spec.n_heads; ++head) {
    const int first = head / (spec.n_heads / spec.n_kv_heads) * spec.head_dim;
    std::vector<const float*> head_keys, head_values;
    for (const Row& key : keys) head_keys.push_back(key.data() + first);
    for (const Row& value : values) head_values.push_back(value.data() + first);
    const std::vector<double> attended =
        reference_attention(q.data() + head * spec.head_dim, head_keys, head_values, spec.head_dim,
                            1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
    out.insert(out.end(), attended.begin(), attended.end());
  }
  return out;
}

void add(Row& x, const Row& more) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += more[i];
}

using OnFfn = std::function<void(const ReferenceFfn&)>;

/// Adds FFN(input) to x. layer_input: the value of x before the layer.
void add_ffn(const ModelSpec& spec, const Weights& weights, int index, const Row& layer_input,
             const Row& input, Row& x, const OnFfn& on_ffn) {
  const LayerWeights& layer = weights.layers[static_cast<size_t>(index)];
  const Row up = product(layer.up, input);
  const Row gate = spec.gated ? product(layer.gate, input) : Row();
  Row hidden;
  for (size_t i = 0; i < up.size(); ++i) {
    hidden.push_back(static_cast<float>(spec.gated
                                            ? reference_gated(spec.activation, double{gate[i]}, double{up[i]})
                                            : reference_activation(spec.activation, double{up[i]})));
  }
  if (on_ffn) on_ffn({index, layer_input, x, spec.gated ? gate : up, hidden});
  add(x, layer.down.weight ? product(layer.down, hidden) : product_of_rows(layer.down_rows, hidden));
}

}  // namespace

std::vector<float> reference_forward(const ModelSpec& spec, const Weights& weights, const Rope& rope,
                                     std::span<const int32_t> tokens, const OnFfn& on_ffn) {
  std::vector<std::vector<Row>> keys(weights.layers.size()), values(weights.layers.size());
  std::vector<float> logits;
  for (size_t t = 0; t < tokens.size(); ++t) {
    Row x = matrix_row(weights.token_embedding, tokens[t]);
    if (spec.arch.position_offset) {
      add(x, matrix_row(weights.position_embedding, static_cast<int64_t>(t) + *spec.arch.position_offset));
    }
    for (size_t i = 0; i < weights.layers.size(); ++i) {
      const LayerWeights& layer = weights.layers[i];
      const Row layer_input = x;
      const Row input = norm(spec, x, layer.attention_norm);
      const int64_t position = static_cast<int64_t>(t);
      const Row q = turned(spec, product(layer.q, input), layer.q_norm, position, rope);
      keys[i].push_back(turned(spec, product(layer.k, input), layer.k_norm, position, rope));
      values[i].push_back(product(layer.v, input));
      round_to_half(keys[i].back());
      round_to_half(values[i].back());
      const bool own_norm = spec.arch.parallel_attention && layer.ffn_norm.scale != nullptr;
      Row ffn_input = own_norm ? norm(spec, x, layer.ffn_norm) : input;
      add(x, product(layer.attention_out, attend(spec, q, keys[i], values[i])));
      if (!spec.arch.parallel_attention) ffn_input = norm(spec, x, layer.ffn_norm);
      add_ffn(spec, weights, static_cast<int>(i), layer_input, ffn_input, x, on_ffn);
    }
    const Row row = product(weights.output, norm(spec, x, weights.output_norm));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

}  // namespace hearth::testing
