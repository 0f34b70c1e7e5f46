// Finds a good scale for a group of weights that share a scale. The encoders of quantize_fitted.cpp use this
// search; no other file includes this one.
//
// A group of values x with error weights w becomes scale * q - offset, where q are integers of few bits. A
// scale that is computed from the group's extremes wastes codes if one value is an outlier. So several scales
// are tried. Each scale gives codes. The best scale and offset for these codes come from the weighted
// least-squares line through the points (q, x). The codes whose line has the smallest error win. Then line
// and codes are improved in turn a few times (Lloyd, Least squares quantization in PCM, 1982).
//
// Sums run in lanes in one fixed order, so every ISA gives the same bits. Vectors are passed by reference,
// because their calling convention differs between ISAs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace hearth::fit {

inline constexpr int kLanes = 8;
// Vector types of GCC and Clang. The compiler splits them if an ISA's registers are smaller.
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t IntLanes __attribute__((vector_size(kLanes * sizeof(int32_t))));

/// The search tries the scales (range of the group's values) / d, where d goes from top - 2 to top + 2 in
/// steps of kStep, and top is the largest code. With half as many steps, the search takes a quarter less
/// time, but the error grows by 0.1 % (Q4_K) to 2 % (Q6_K).
inline constexpr int kSteps = 20;
inline constexpr float kStep = 0.1f;
/// The number of rounds, each of which recomputes the codes from the line, and the line from the codes. A
/// third round would change hardly any group.
inline constexpr int kRounds = 2;

inline void load(const float* x, Lanes& v) { std::memcpy(&v, x, sizeof(v)); }

/// Adds up the lanes, always in this order.
inline float sum_of(const Lanes& v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/// Rounds v to the nearest integers in [0, top]; halves are rounded up.
inline void round_to_codes(Lanes& v, float top) {
  const Lanes zero = {}, most = zero + top;
  v = v > zero ? v : zero;
  v = v < most ? v : most;
  v = __builtin_convertvector(__builtin_convertvector(v + 0.5f, IntLanes), Lanes);
}

struct Line {
  float scale = 0.0f, offset = 0.0f;
  float gain = 0.0f;  // reduction of the weighted squared error by this line, compared with approximating all
                      // values by 0
};

template <int n>
struct Group {
  static_assert(n % kLanes == 0);
  const float *x, *w;  // [n]
  float sum_w = 0.0f, sum_wx = 0.0f;

  Group(const float* values, const float* weights) : x(values), w(weights) {
    Lanes s = {}, sx = {}, vx, vw;
    for (int i = 0; i < n; i += kLanes) {
      load(x + i, vx);
      load(w + i, vw);
      s += vw;
      sx += vw * vx;
    }
    sum_w = sum_of(s);
    sum_wx = sum_of(sx);
  }

  /// The weighted squared error of scale * q - offset, where q are the best codes from 0 to top.
  float error(float scale, float offset, float top) const {
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    Lanes sum = {}, vx, vw;
    for (int i = 0; i < n; i += kLanes) {
      load(x + i, vx);
      load(w + i, vw);
      Lanes q = (vx + offset) * inverse;
      round_to_codes(q, top);
      const Lanes miss = scale * q - offset - vx;
      sum += vw * miss * miss;
    }
    return sum_of(sum);
  }
};

/// Rounds (x + offset) * inverse to codes, integers from 0 to top, and returns the least-squares line for
/// those codes. kAnyOffset: the line's offset may be negative.
template <bool kAnyOffset, int n>
Line line_of_codes(const Group<n>& group, float inverse, float offset, float top) {
  Lanes q1 = {}, q2 = {}, qx = {}, vx, vw;
  for (int i = 0; i < n; i += kLanes) {
    load(group.x + i, vx);
    load(group.w + i, vw);
    Lanes q = (vx + offset) * inverse;
    round_to_codes(q, top);
    const Lanes wq = vw * q;
    q1 += wq;
    q2 += wq * q;
    qx += wq * vx;
  }
  const float sum_q = sum_of(q1), sum_qq = sum_of(q2), sum_qx = sum_of(qx);
  if (!(sum_qq > 0.0f)) return {};
  const float determinant = group.sum_w * sum_qq - sum_q * sum_q;
  if (determinant > 0.0f) {
    const float scale = (group.sum_w * sum_qx - group.sum_wx * sum_q) / determinant;
    const float base = (sum_qq * group.sum_wx - sum_q * sum_qx) / determinant;
    if (kAnyOffset || base <= 0.0f) return {scale, -base, scale * sum_qx + base * group.sum_wx};
  }
  return {sum_qx / sum_qq, 0.0f, sum_qx / sum_qq * sum_qx};
}

/// Returns the best line found for codes from 0 to top. Without kAnyOffset, the line's offset is not
/// negative. REQUIRES: finite x, w >= 0.
template <bool kAnyOffset, int n>
Line fit_range(const Group<n>& group, float top) {
  const auto [least, most] = std::minmax_element(group.x, group.x + n);
  const float low = kAnyOffset ? *least : std::min(*least, 0.0f);
  const float range = *most - low;
  if (!(range > 0.0f)) return {0.0f, -low, 0.0f};
  Line best{range / top, -low, -std::numeric_limits<float>::infinity()};
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float inverse = (top + kStep * static_cast<float>(step)) / range;
    const Line line = line_of_codes<kAnyOffset>(group, inverse, -low, top);
    if (line.scale > 0.0f && line.gain > best.gain) best = line;
  }
  for (int round = 0; round < kRounds; ++round) {
    const Line line = line_of_codes<kAnyOffset>(group, 1.0f / best.scale, best.offset, top);
    if (!(line.scale > 0.0f && line.gain > best.gain)) break;
    best = line;
  }
  return best;
}

/// Rounds x * inverse to codes, integers from -half to half - 1, and returns the least-squares scale for
/// those codes.
template <int n>
Line scale_of_codes(const Group<n>& group, float inverse, float half) {
  Lanes qq = {}, qx = {}, vx, vw;
  for (int i = 0; i < n; i += kLanes) {
    load(group.x + i, vx);
    load(group.w + i, vw);
    Lanes q = vx * inverse + half;
    round_to_codes(q, 2.0f * half - 1.0f);
    q -= half;
    const Lanes wq = vw * q;
    qq += wq * q;
    qx += wq * vx;
  }
  const float sum_qq = sum_of(qq), sum_qx = sum_of(qx);
  if (!(sum_qq > 0.0f)) return {};
  return {sum_qx / sum_qq, 0.0f, sum_qx / sum_qq * sum_qx};
}

/// Returns the best scale found for codes from -half to half - 1; it may be negative. REQUIRES: finite x, w
/// >= 0.
template <int n>
Line fit_symmetric(const Group<n>& group, float half) {
  float furthest = 0.0f;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(group.x[i]) > std::fabs(furthest)) furthest = group.x[i];
  }
  if (furthest == 0.0f) return {};
  Line best{-furthest / half, 0.0f, -std::numeric_limits<float>::infinity()};
  for (int step = -kSteps; step <= kSteps; ++step) {
    const Line line = scale_of_codes(group, -(half + kStep * static_cast<float>(step)) / furthest, half);
    if (line.scale != 0.0f && line.gain > best.gain) best = line;
  }
  for (int round = 0; round < kRounds; ++round) {
    const Line line = scale_of_codes(group, 1.0f / best.scale, half);
    if (!(line.scale != 0.0f && line.gain > best.gain)) break;
    best = line;
  }
  return best;
}

}  // namespace hearth::fit
