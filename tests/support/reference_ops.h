// The reference for the backends: the operations of kernels/backend.h in plain loops over doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/quant/half.h"

namespace hearth::testing {

inline std::vector<double> reference_rms_norm(const float* x, const float* weight, double eps, int64_t n) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += double{x[i]} * double{x[i]};
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(double{x[i]} * scale * double{weight[i]});
  return out;
}

/// A row of Backend::match_rows().
inline std::vector<double> reference_match_row(const float* to, double least, const float* x, int64_t n) {
  double target = 0, own = 0;
  for (int64_t i = 0; i < n; ++i) {
    target += double{to[i]} * double{to[i]} / static_cast<double>(n);
    own += double{x[i]} * double{x[i]} / static_cast<double>(n);
  }
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(double{x[i]} * std::sqrt(target / std::max(own, least)));
  return out;
}

/// A row of Backend::cut_rows().
inline std::vector<double> reference_cut_row(double n_deviations, const float* x, int64_t n) {
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) mean += double{x[i]} / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (double{x[i]} - mean) * (double{x[i]} - mean);
  const double least = mean + n_deviations * std::sqrt(squares / static_cast<double>(n));
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(std::max(double{x[i]} - least, 0.0));
  return out;
}

/// MixedRows::out for sum s and row r.
inline std::vector<double> reference_mixed_row(const MixedRows& call, int s, int64_t r) {
  std::vector<double> out;
  for (int64_t i = r * call.n_cols; i < (r + 1) * call.n_cols; ++i) {
    double sum = call.x[s * call.stride + i];
    for (int j = 0; j < call.n_added; ++j) {
      const float weight = call.weights[(r * call.n_sums + s) * call.n_added + j];
      sum += double{weight} * double{call.added[j * call.stride + i]};
    }
    out.push_back(sum);
  }
  return out;
}

/// bias may be null.
inline std::vector<double> reference_layer_norm(const float* x, const float* weight, const float* bias,
                                                double eps, int64_t n) {
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) mean += double{x[i]} / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (double{x[i]} - mean) * (double{x[i]} - mean);
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) {
    out.push_back((double{x[i]} - mean) * scale * double{weight[i]} +
                  (bias == nullptr ? 0.0 : double{bias[i]}));
  }
  return out;
}

inline double reference_activation(FfnActivation act, double x) {
  switch (act.kind) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kRelu:
      return x > double{act.threshold} || std::isnan(x) ? x : 0.0;
    case Activation::kRelu2:
      return x > 0 || std::isnan(x) ? x * x : 0.0;
    case Activation::kDRelu:
      return x > 0 || std::isnan(x) ? x : 0.0;
    case Activation::kSwigluOai:
      if (x > 7.0) x = 7.0;
      return x / (1.0 + std::exp(-1.702 * x));
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Activation::kIdentity:
      return x;
    case Activation::kSoftplus:
      return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Activation::kSwigluClamped:
      return std::isnan(x) ? x : std::min(x / (1.0 + std::exp(-x)), double{act.limit});
    case Activation::kXielu: {
      if (std::isnan(x)) return x;
      const double linear = double{act.xielu.beta} * x;
      if (x > 0) return double{act.xielu.alpha_p} * x * x + linear;
      return double{act.xielu.alpha_n} * (std::expm1(std::min(x, double{act.xielu.eps})) - x) + linear;
    }
  }
  return NAN;
}

/// act(gate) * up; for dReLU the product of both relus; for gpt-oss act(gate) * (clamped up + 1); clamped,
/// act(gate) * clamped up.
inline double reference_gated(FfnActivation act, double gate, double up) {
  const double activated = reference_activation(act, gate);
  if (act.kind == Activation::kSwigluClamped && !std::isnan(up)) {
    up = std::clamp(up, -double{act.limit}, double{act.limit});
  }
  if (act.kind == Activation::kSwigluOai) return activated * ((up > 7 ? 7 : up < -7 ? -7 : up) + 1);
  return activated * (act.kind == Activation::kDRelu ? reference_activation(act, up) : up);
}

/// One head, rotated for one position.
inline std::vector<double> reference_rope(const float* head, int head_dim, int64_t position,
                                          const Rope& rope) {
  std::vector<double> out(head, head + head_dim);
  for (int i = 0; i < rope.n_rot / 2; ++i) {
    const bool halves = rope.kind == RopeKind::kHalves;
    const size_t a = static_cast<size_t>(halves ? i : 2 * i);
    const size_t b = static_cast<size_t>(halves ? i + rope.n_rot / 2 : 2 * i + 1);
    const double angle = static_cast<double>(position) * double{rope.inv_freq[i]};
    const double c = std::cos(angle) * double{rope.magnitude}, s = std::sin(angle) * double{rope.magnitude};
    out[a] = double{head[a]} * c - double{head[b]} * s;
    out[b] = double{head[a]} * s + double{head[b]} * c;
  }
  return out;
}

/// The result of storing kKvGroup numbers as KvType::kQ8.
struct ReferenceGroup {
  int8_t whole[kKvGroup] = {};
  uint16_t scale = 0;

  float number(int i) const { return static_cast<float>(whole[i]) * float_from_half(scale); }
};

/// Quotients are rounded to floats first, as the format defines, and then held in doubles, which changes
/// nothing.
inline ReferenceGroup reference_kv_q8(const float* x) {
  ReferenceGroup group;
  double largest = 0;
  bool finite = true;
  for (int i = 0; i < kKvGroup; ++i) {
    finite = finite && std::isfinite(x[i]);
    largest = std::max(largest, std::abs(double{x[i]}));
  }
  group.scale = half_from_float(static_cast<float>(largest / 127));
  const double scale = double{float_from_half(group.scale)};
  if (!finite || !std::isfinite(scale)) {
    group.scale = kKvPoison;
  } else if (scale > 0) {
    for (int i = 0; i < kKvGroup; ++i) {
      const float quotient = static_cast<float>(double{x[i]} / scale);
      group.whole[i] = static_cast<int8_t>(std::clamp(std::nearbyint(double{quotient}), -127.0, 127.0));
    }
  }
  return group;
}

/// Attention of one query head over the keys and values [n_keys, head_dim] in its window. soft_cap and sink
/// are as in AttentionScores; `sink` is this head's value, or null. lowered: what the score of each key loses
/// after the cap; empty for nothing.
inline std::vector<double> reference_attention(const float* q, const std::vector<const float*>& keys,
                                               const std::vector<const float*>& values, int head_dim,
                                               double scale, double soft_cap = 0, const float* sink = nullptr,
                                               const std::vector<double>& lowered = {}) {
  std::vector<double> scores;
  double largest = sink == nullptr ? -INFINITY : double{*sink};
  for (const float* key : keys) {
    double dot = 0;
    for (int d = 0; d < head_dim; ++d) dot += double{q[d]} * double{key[d]};
    scores.push_back(soft_cap > 0 ? soft_cap * std::tanh(dot * scale / soft_cap) : dot * scale);
    if (!lowered.empty()) scores.back() -= lowered[scores.size() - 1];
    largest = std::max(largest, scores.back());
  }
  double sum = sink == nullptr ? 0 : std::exp(double{*sink} - largest);
  std::vector<double> out(static_cast<size_t>(head_dim), 0.0);
  for (size_t j = 0; j < keys.size(); ++j) {
    const double p = std::exp(scores[j] - largest);
    sum += p;
    for (size_t d = 0; d < out.size(); ++d) out[d] += p * double{values[j][d]};
  }
  for (double& value : out) value /= sum;
  return out;
}

}  // namespace hearth::testing
