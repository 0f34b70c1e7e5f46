// The reference for kernels/recurrent.h: a recurrent layer in plain loops over doubles, token by token.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/recurrent.h"

namespace hearth::testing {

inline double reference_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline double reference_softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

/// One sequence of a layer.
class ReferenceRecurrent {
 public:
  explicit ReferenceRecurrent(const RecurrentShape& shape)
      : shape_(shape),
        rows_(static_cast<size_t>(shape.n_taps), std::vector<double>(size(shape.conv_dim()), 0.0)),
        state_(size(int64_t{shape.n_v_heads} * shape.n_rows() * shape.head_dim), 0.0) {}

  /// Returns the convolved channels of the next token: q, k, v in delta nets. raw [conv_dim], taps [n_taps,
  /// conv_dim], bias [conv_dim] or empty.
  std::vector<double> convolve(const float* raw, const float* taps, const std::vector<float>& bias) {
    rows_.erase(rows_.begin());
    rows_.emplace_back(raw, raw + shape_.conv_dim());
    std::vector<double> out(size(shape_.conv_dim()), 0.0);
    for (size_t c = 0; c < out.size(); ++c) {
      for (size_t tap = 0; tap < rows_.size(); ++tap)
        out[c] += double{taps[tap * out.size() + c]} * rows_[tap][c];
      if (!bias.empty()) out[c] += double{bias[c]};
      if (shape_.kind != RecurrentKind::kShortConv) out[c] *= reference_sigmoid(out[c]);
    }
    return out;
  }

  /// Divides each head of q or k [key_dim] by its length and multiplies it by `factor`.
  void normalize(double eps, double factor, double* heads) const {
    for (int j = 0; j < shape_.n_k_heads; ++j, heads += shape_.n_rows()) {
      double squares = eps;
      for (int i = 0; i < shape_.n_rows(); ++i) squares += heads[i] * heads[i];
      for (int i = 0; i < shape_.n_rows(); ++i) heads[i] *= factor / std::sqrt(squares);
    }
  }

  /// Returns out [value_dim] of the next token. decay: [decay_dim]. beta: [n_v_heads], in a selective scan
  /// the steps. skip: only for a selective scan.
  std::vector<double> advance(const double* q, const double* k, const double* v, const double* decay,
                              const double* beta, const float* skip = nullptr) {
    const int d = shape_.head_dim, n_rows = shape_.n_rows();
    std::vector<double> out(size(shape_.value_dim()), 0.0);
    for (int h = 0; h < shape_.n_v_heads; ++h) {
      const double* keys = k + shape_.key_head(h) * n_rows;
      const double* queries = q + shape_.key_head(h) * n_rows;
      double* const s = state_.data() + int64_t{h} * n_rows * d;
      std::vector<double> u(size(d), 0.0);
      const auto decay_of = [&](int i) { return decay[shape_.row_decays ? h * n_rows + i : h]; };
      for (int i = 0; i < (skip == nullptr ? n_rows : 0); ++i) {
        for (int c = 0; c < d; ++c) u[size(c)] += decay_of(i) * s[i * d + c] * keys[i];
      }
      for (int c = 0; c < d; ++c) u[size(c)] = beta[h] * (v[h * d + c] - u[size(c)]);
      for (int c = 0; c < (skip == nullptr ? 0 : d); ++c)
        out[size(h * d + c)] = double{skip[h]} * v[h * d + c];
      for (int i = 0; i < n_rows; ++i) {
        for (int c = 0; c < d; ++c) {
          s[i * d + c] = decay_of(i) * s[i * d + c] + keys[i] * u[size(c)];
          out[size(h * d + c)] += s[i * d + c] * queries[i];
        }
      }
    }
    return out;
  }

  /// S[i][c] of a head.
  double state(int head, int row, int column) const {
    return state_[size((int64_t{head} * shape_.n_rows() + row) * shape_.head_dim + column)];
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  RecurrentShape shape_;
  std::vector<std::vector<double>> rows_;  // the last n_taps raw rows, the oldest first
  std::vector<double> state_;              // [n_v_heads][n_rows()][head_dim columns]
};

}  // namespace hearth::testing
