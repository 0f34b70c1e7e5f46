// The row operations of VectorKernels. The source uses the class Lanes and is compiled once per ISA.
//
// Only <isa>/vector_<isa>.cpp includes this, after one of the lanes_*.h. It must not call the standard
// library, because the linker might keep a copy of an inline library function that was compiled here for
// AVX-512, and use that copy everywhere.
#pragma once

#include "kernels/cpu/isa/vector_kernels.h"

namespace hearth {
namespace {

/// Calls body(first element, number of lanes) for each run of 16 elements, and once for the remaining
/// elements.
template <class Body>
inline void for_each_lanes(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, 16);
  if (i < n) body(i, static_cast<int>(n - i));
}

inline Lanes load_up_to(const float* x, int n) { return n == 16 ? Lanes::load(x) : Lanes::load_n(x, n); }

inline void store_up_to(Lanes v, float* out, int n) {
  if (n == 16) {
    Lanes::store(v, out);
  } else {
    Lanes::store_n(v, out, n);
  }
}

/// e^x, within 2 units in the last place. Range reduction x = n ln 2 + r uses ln 2 in two parts (Cody, Waite
/// 1980); the polynomial for |r| <= ln 2 / 2 is from Cephes' expf (Moshier 1989). The result is exactly 0 for
/// x below -87.33 (where floats lose digits), the finite e^88.37 for x above 88.37, and exactly 1 for x = 0.
/// A NaN stays a NaN.
inline Lanes exponential(Lanes x) {
  const Lanes low = Lanes::all(-87.33f);
  const Lanes clamped = Lanes::min(Lanes::all(88.37f), Lanes::max(low, x));
  const Lanes n = Lanes::round(Lanes::mul(clamped, Lanes::all(1.44269504f)));
  Lanes r = Lanes::fma(n, Lanes::all(-0.693359375f), clamped);  // n times this nine-bit constant is exact
  r = Lanes::fma(n, Lanes::all(2.12194440e-4f), r);
  Lanes p = Lanes::all(1.9875691500e-4f);
  p = Lanes::fma(p, r, Lanes::all(1.3981999507e-3f));
  p = Lanes::fma(p, r, Lanes::all(8.3334519073e-3f));
  p = Lanes::fma(p, r, Lanes::all(4.1665795894e-2f));
  p = Lanes::fma(p, r, Lanes::all(1.6666665459e-1f));
  p = Lanes::fma(p, r, Lanes::all(5.0000001201e-1f));
  p = Lanes::add(Lanes::fma(p, Lanes::mul(r, r), r), Lanes::all(1.0f));
  return Lanes::zero_below(Lanes::mul(p, Lanes::power_of_two(n)), x, low);
}

/// Sums term(first element, lanes) over a row, in four accumulators that are added pairwise at the end.
template <class Term>
inline float row_sum(int64_t n, Term&& term) {
  Lanes sums[4] = {Lanes::all(0.0f), Lanes::all(0.0f), Lanes::all(0.0f), Lanes::all(0.0f)};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) sums[j] = term(sums[j], i + 16 * j, 16);
  }
  for_each_lanes(n - i, [&](int64_t at, int count) { sums[0] = term(sums[0], i + at, count); });
  return Lanes::sum(Lanes::add(Lanes::add(sums[0], sums[1]), Lanes::add(sums[2], sums[3])));
}

/// The mean of a row's squares.
inline float mean_square(const float* x, int64_t n) {
  const float squares = row_sum(n, [&](Lanes sum, int64_t i, int count) {
    const Lanes v = load_up_to(x + i, count);
    return Lanes::fma(v, v, sum);
  });
  return squares / static_cast<float>(n);
}

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* out) {
  const Lanes scale = Lanes::all(1.0f / Lanes::square_root(mean_square(x, n) + eps));
  for_each_lanes(n, [&](int64_t i, int count) {
    const Lanes v = Lanes::mul(load_up_to(x + i, count), scale);
    store_up_to(Lanes::mul(v, load_up_to(weight + i, count)), out + i, count);
  });
}

/// The mean and the variance of a row.
struct Spread {
  Lanes mean;
  float variance;
};
inline Spread spread_of(const float* x, int64_t n) {
  const float total =
      row_sum(n, [&](Lanes sum, int64_t i, int count) { return Lanes::add(sum, load_up_to(x + i, count)); });
  const Lanes mean = Lanes::all(total / static_cast<float>(n));
  const float squares = row_sum(n, [&](Lanes sum, int64_t i, int count) {
    const Lanes v = Lanes::sub(load_up_to(x + i, count), mean);
    // Lanes past the end were loaded as 0 and not as the mean, so they must be excluded.
    const Lanes counted = count == 16 ? v : Lanes::keep_first(v, count, Lanes::all(0.0f));
    return Lanes::fma(counted, counted, sum);
  });
  return {mean, squares / static_cast<float>(n)};
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n, float* out) {
  const Spread spread = spread_of(x, n);
  const Lanes scale = Lanes::all(1.0f / Lanes::square_root(spread.variance + eps));
  for_each_lanes(n, [&](int64_t i, int count) {
    const Lanes v = Lanes::mul(Lanes::sub(load_up_to(x + i, count), spread.mean), scale);
    const Lanes scaled = Lanes::mul(v, load_up_to(weight + i, count));
    const Lanes moved = bias == nullptr ? scaled : Lanes::add(scaled, load_up_to(bias + i, count));
    store_up_to(moved, out + i, count);
  });
}

void match_row(const float* to, float least, int64_t n, float* x) {
  const float own = mean_square(x, n), target = mean_square(to, n);
  const Lanes factor = Lanes::all(Lanes::square_root(target) / Lanes::square_root(own < least ? least : own));
  for_each_lanes(n, [&](int64_t i, int count) {
    store_up_to(Lanes::mul(load_up_to(x + i, count), factor), x + i, count);
  });
}

void cut_row(float n_deviations, int64_t n, float* x) {
  const Spread spread = spread_of(x, n);
  const Lanes least =
      Lanes::fma(Lanes::all(n_deviations), Lanes::all(Lanes::square_root(spread.variance)), spread.mean);
  for_each_lanes(n, [&](int64_t i, int count) {
    // If the difference is NaN, max returns it.
    const Lanes above = Lanes::max(Lanes::all(0.0f), Lanes::sub(load_up_to(x + i, count), least));
    store_up_to(above, x + i, count);
  });
}

void mix_row(const float* x, const float* added, int64_t stride, const float* weights, int n_added, int64_t n,
             float* out) {
  for_each_lanes(n, [&](int64_t i, int count) {
    Lanes sum = load_up_to(x + i, count);
    for (int j = 0; j < n_added; ++j)
      sum = Lanes::fma(Lanes::all(weights[j]), load_up_to(added + j * stride + i, count), sum);
    store_up_to(sum, out + i, count);
  });
}

/// x Phi(x) = max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, a sum without cancellation. erfc(z) = e^-z^2 t p(t)
/// with t = 1 / (1 + 0.3 z). p was fitted at Chebyshev points for z up to 9.6; beyond that, e^-z^2 is 0. The
/// error is at most 3e-7 |x|.
inline Lanes gelu_erf(Lanes x) {
  const Lanes zero = Lanes::all(0.0f);
  const Lanes one = Lanes::all(1.0f);
  const Lanes size = Lanes::max(Lanes::sub(zero, x), x);
  const Lanes z = Lanes::mul(size, Lanes::all(0.707106781f));
  const Lanes t = Lanes::div(one, Lanes::fma(z, Lanes::all(0.3f), one));
  Lanes p = Lanes::all(-0.13064171f);
  p = Lanes::fma(p, t, Lanes::all(0.49115634f));
  p = Lanes::fma(p, t, Lanes::all(-0.5242092f));
  p = Lanes::fma(p, t, Lanes::all(0.5618781f));
  p = Lanes::fma(p, t, Lanes::all(-0.1048535f));
  p = Lanes::fma(p, t, Lanes::all(0.2194899f));
  p = Lanes::fma(p, t, Lanes::all(0.14710373f));
  p = Lanes::fma(p, t, Lanes::all(0.17090003f));
  p = Lanes::fma(p, t, Lanes::all(0.16917633f));
  const Lanes decay = exponential(Lanes::sub(zero, Lanes::mul(z, z)));
  const Lanes half_erfc = Lanes::mul(Lanes::mul(Lanes::all(0.5f), Lanes::mul(t, p)), decay);
  // half_erfc is 0 for sizes from 20 on. The size is capped at 20, because infinity times 0 would be NaN.
  const Lanes tail = Lanes::mul(Lanes::min(Lanes::all(20.0f), size), half_erfc);
  return Lanes::sub(Lanes::max(zero, x), tail);
}

/// 1 / (1 + e^-x).
inline Lanes logistic(Lanes x) {
  const Lanes one = Lanes::all(1.0f);
  return Lanes::div(one, Lanes::add(one, exponential(Lanes::sub(Lanes::all(0.0f), x))));
}

/// softplus(x) = ln(1 + e^x) = max(x, 0) + ln(1 + e), with e = e^-|x|. ln(1 + e) = 2 atanh(s) with s = e / (2
/// + e) <= 1 / 3, so the series of atanh up to s^15 leaves a relative error of 2e-9. The result is within
/// 3e-7 of it. A NaN stays a NaN.
inline Lanes softplus(Lanes x) {
  const Lanes zero = Lanes::all(0.0f);
  const Lanes e = exponential(Lanes::min(Lanes::sub(zero, x), x));
  const Lanes s = Lanes::div(e, Lanes::add(Lanes::all(2.0f), e));
  const Lanes square = Lanes::mul(s, s);
  Lanes p = Lanes::all(1.0f / 15.0f);
  p = Lanes::fma(p, square, Lanes::all(1.0f / 13.0f));
  p = Lanes::fma(p, square, Lanes::all(1.0f / 11.0f));
  p = Lanes::fma(p, square, Lanes::all(1.0f / 9.0f));
  p = Lanes::fma(p, square, Lanes::all(1.0f / 7.0f));
  p = Lanes::fma(p, square, Lanes::all(1.0f / 5.0f));
  p = Lanes::fma(p, square, Lanes::all(1.0f / 3.0f));
  p = Lanes::fma(p, square, Lanes::all(1.0f));
  return Lanes::fma(Lanes::add(s, s), p, Lanes::max(zero, x));
}

/// x / (1 + e^-x).
inline Lanes silu(Lanes x) {
  return Lanes::div(x, Lanes::add(Lanes::all(1.0f), exponential(Lanes::sub(Lanes::all(0.0f), x))));
}

/// See Xielu. With m = min(x, eps), the part for x <= 0 is alpha_n (g(m) + m - x) + beta x, where g(m) = e^m
/// - 1 - m. For m above -0.5, where the terms of g cancel, g is the first seven terms of its series, whose
/// error is at most 1e-7 g. A NaN stays a NaN.
inline Lanes xielu(Lanes x, const Xielu& numbers) {
  const Lanes zero = Lanes::all(0.0f), one = Lanes::all(1.0f);
  const Lanes linear = Lanes::mul(Lanes::all(numbers.beta), x);
  const Lanes positive = Lanes::fma(Lanes::mul(Lanes::all(numbers.alpha_p), x), x, linear);
  const Lanes m = Lanes::min(Lanes::all(numbers.eps), x);
  Lanes p = Lanes::all(1.0f / 40320.0f);
  p = Lanes::fma(p, m, Lanes::all(1.0f / 5040.0f));
  p = Lanes::fma(p, m, Lanes::all(1.0f / 720.0f));
  p = Lanes::fma(p, m, Lanes::all(1.0f / 120.0f));
  p = Lanes::fma(p, m, Lanes::all(1.0f / 24.0f));
  p = Lanes::fma(p, m, Lanes::all(1.0f / 6.0f));
  p = Lanes::fma(p, m, Lanes::all(0.5f));
  const Lanes flat = Lanes::mul(Lanes::mul(m, m), p);
  const Lanes steep = Lanes::sub(Lanes::sub(exponential(m), one), m);
  // `flat` is used for m above -0.5, and `steep` for all others. The unused value is set to 0.
  const Lanes g = Lanes::add(Lanes::zero_below(flat, m, Lanes::all(-0x1.fffffep-2f)),
                             Lanes::zero_below(steep, Lanes::sub(zero, m), Lanes::all(0.5f)));
  const Lanes negative = Lanes::fma(Lanes::all(numbers.alpha_n), Lanes::add(g, Lanes::sub(m, x)), linear);
  // Likewise, one of the two parts becomes 0. The constant is the smallest positive float.
  return Lanes::add(Lanes::zero_below(positive, x, Lanes::all(0x1p-149f)),
                    Lanes::zero_below(negative, Lanes::sub(zero, x), zero));
}

/// The next float above x >= 0.
inline float next_above(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  ++bits;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

template <class Act>
inline void activate(const float* gate, const float* up, int64_t n, float* out, Act&& act) {
  for_each_lanes(n, [&](int64_t i, int count) {
    const Lanes activated = act(load_up_to(gate + i, count));
    store_up_to(up == nullptr ? activated : Lanes::mul(activated, load_up_to(up + i, count)), out + i, count);
  });
}

void gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n, float* out) {
  const Lanes zero = Lanes::all(0.0f);
  const Lanes one = Lanes::all(1.0f);
  // If either operand is NaN, max and min return the second operand, which is x here. So a NaN stays a NaN.
  const auto relu = [&](Lanes x) { return Lanes::max(zero, x); };
  switch (act.kind) {
    case Activation::kSilu:
      activate(gate, up, n, out, silu);
      break;
    case Activation::kGelu:
      // 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3) equals x / (1 + e^-2u), which has no
      // cancellation.
      activate(gate, up, n, out, [&](Lanes x) {
        const Lanes cubic = Lanes::fma(Lanes::mul(x, x), Lanes::all(-2.0f * 0.797884561f * 0.044715f),
                                       Lanes::all(-2.0f * 0.797884561f));
        return Lanes::div(x, Lanes::add(one, exponential(Lanes::mul(cubic, x))));
      });
      break;
    case Activation::kGeluErf:
      activate(gate, up, n, out, gelu_erf);
      break;
    case Activation::kRelu:
      if (act.threshold > 0.0f) {
        const Lanes low = Lanes::all(next_above(act.threshold));
        activate(gate, up, n, out, [&](Lanes x) { return Lanes::zero_below(x, x, low); });
      } else {
        activate(gate, up, n, out, relu);
      }
      break;
    case Activation::kRelu2:
      activate(gate, up, n, out, [&](Lanes x) { return Lanes::mul(relu(x), relu(x)); });
      break;
    case Activation::kDRelu:
      for_each_lanes(n, [&](int64_t i, int count) {
        const Lanes gates = relu(load_up_to(gate + i, count));
        store_up_to(Lanes::mul(gates, relu(load_up_to(up + i, count))), out + i, count);
      });
      break;
    case Activation::kSwigluOai:
      for_each_lanes(n, [&](int64_t i, int count) {
        const Lanes g = Lanes::min(Lanes::all(7.0f), load_up_to(gate + i, count));
        const Lanes u =
            Lanes::min(Lanes::all(7.0f), Lanes::max(Lanes::all(-7.0f), load_up_to(up + i, count)));
        const Lanes swish = Lanes::div(g, Lanes::add(one, exponential(Lanes::mul(Lanes::all(-1.702f), g))));
        store_up_to(Lanes::mul(swish, Lanes::add(u, one)), out + i, count);
      });
      break;
    case Activation::kSigmoid:
      activate(gate, up, n, out, logistic);
      break;
    case Activation::kIdentity:
      activate(gate, up, n, out, [](Lanes x) { return x; });
      break;
    case Activation::kSoftplus:
      activate(gate, up, n, out, softplus);
      break;
    case Activation::kSwigluClamped:
      for_each_lanes(n, [&](int64_t i, int count) {
        const Lanes most = Lanes::all(act.limit), least = Lanes::all(-act.limit);
        const Lanes g = Lanes::min(most, silu(load_up_to(gate + i, count)));
        if (up == nullptr) return store_up_to(g, out + i, count);
        const Lanes u = Lanes::min(most, Lanes::max(least, load_up_to(up + i, count)));
        store_up_to(Lanes::mul(g, u), out + i, count);
      });
      break;
    case Activation::kXielu:
      activate(gate, up, n, out, [&](Lanes x) { return xielu(x, act.xielu); });
      break;
  }
}

/// tanh(x) = 1 - 2 / (1 + e^2x). This formula loses digits for |x| < 0.625; there the function uses the
/// polynomial of Cephes' tanhf (Moshier 1989). The result is within 4 units in the last place. A NaN stays a
/// NaN.
inline Lanes hyperbolic_tangent(Lanes x) {
  const Lanes zero = Lanes::all(0.0f), one = Lanes::all(1.0f);
  const Lanes power = exponential(Lanes::add(x, x));
  const Lanes steep = Lanes::sub(one, Lanes::div(Lanes::all(2.0f), Lanes::add(one, power)));
  const Lanes square = Lanes::mul(x, x);
  Lanes p = Lanes::all(-5.70498872745e-3f);
  p = Lanes::fma(p, square, Lanes::all(2.06390887954e-2f));
  p = Lanes::fma(p, square, Lanes::all(-5.37397155531e-2f));
  p = Lanes::fma(p, square, Lanes::all(1.33314422036e-1f));
  p = Lanes::fma(p, square, Lanes::all(-3.33332819422e-1f));
  const Lanes flat = Lanes::fma(Lanes::mul(p, square), x, x);
  // `flat` is used for sizes below 0.625, and `steep` for all others. The unused value is set to 0.
  const Lanes size = Lanes::max(Lanes::sub(zero, x), x);
  return Lanes::add(Lanes::zero_below(steep, size, Lanes::all(0.625f)),
                    Lanes::zero_below(flat, Lanes::sub(zero, size), Lanes::all(-0x1.3ffffep-1f)));
}

/// cap * tanh(x / cap).
inline Lanes soft_capped(Lanes x, float cap) {
  const Lanes inverse = Lanes::all(1.0f / cap);
  return Lanes::mul(Lanes::all(cap), hyperbolic_tangent(Lanes::mul(x, inverse)));
}

void soft_cap(float cap, int64_t n, float* out) {
  for_each_lanes(n, [&](int64_t i, int count) {
    store_up_to(soft_capped(load_up_to(out + i, count), cap), out + i, count);
  });
}

void softmax(const float* x, int64_t n, float* out) {
  const Lanes lowest = Lanes::all(-__builtin_inff());
  Lanes most = lowest;
  for_each_lanes(n, [&](int64_t i, int count) {
    const Lanes v = load_up_to(x + i, count);
    most = Lanes::max(count == 16 ? v : Lanes::keep_first(v, count, lowest), most);
  });
  const Lanes largest = Lanes::all(Lanes::largest(most));
  for_each_lanes(n, [&](int64_t i, int count) {
    store_up_to(exponential(Lanes::sub(load_up_to(x + i, count), largest)), out + i, count);
  });
  const Lanes sum = Lanes::all(row_sum(
      n, [&](Lanes total, int64_t i, int count) { return Lanes::add(total, load_up_to(out + i, count)); }));
  for_each_lanes(n, [&](int64_t i, int count) {
    store_up_to(Lanes::div(load_up_to(out + i, count), sum), out + i, count);
  });
}

void sigmoid(const float* x, int64_t n, float* out) {
  for_each_lanes(
      n, [&](int64_t i, int count) { store_up_to(logistic(load_up_to(x + i, count)), out + i, count); });
}

void add_weighted_rows(const WeightedRows& rows, int64_t n, float* out) {
  for_each_lanes(n, [&](int64_t i, int count) {
    Lanes sum = Lanes::all(0.0f);
    for (int j = 0; j < rows.n; ++j) {
      const Lanes v = load_up_to(rows.x + rows.ids[j] * rows.stride + i, count);
      sum = Lanes::fma(Lanes::all(rows.weights[j]), v, sum);
    }
    store_up_to(Lanes::add(load_up_to(out + i, count), sum), out + i, count);
  });
}

void rotate_halves(const float* table, int n_rot, float* head) {
  const int half = n_rot / 2;
  for_each_lanes(half, [&](int64_t i, int count) {
    const Lanes cosine = load_up_to(table + i, count);
    const Lanes sine = load_up_to(table + half + i, count);
    const Lanes a = load_up_to(head + i, count);
    const Lanes b = load_up_to(head + half + i, count);
    store_up_to(Lanes::sub(Lanes::mul(a, cosine), Lanes::mul(b, sine)), head + i, count);
    store_up_to(Lanes::add(Lanes::mul(b, cosine), Lanes::mul(a, sine)), head + half + i, count);
  });
}

void rotate_interleaved(const float* table, int n_rot, float* head) {
  for_each_lanes(n_rot, [&](int64_t i, int count) {
    const Lanes v = load_up_to(head + i, count);
    const Lanes turned = Lanes::mul(Lanes::swap_pairs(v), load_up_to(table + n_rot + i, count));
    store_up_to(Lanes::add(Lanes::mul(v, load_up_to(table + i, count)), turned), head + i, count);
  });
}

void rotate(RopeKind kind, const float* table, int n_rot, float* head) {
  if (kind == RopeKind::kHalves) rotate_halves(table, n_rot, head);
  if (kind == RopeKind::kInterleaved) rotate_interleaved(table, n_rot, head);
}

void to_half(const float* x, int64_t n, uint16_t* out) {
  for_each_lanes(n, [&](int64_t i, int count) {
    if (count == 16) {
      Lanes::store_half(Lanes::load(x + i), out + i);
    } else {
      Lanes::store_half_n(Lanes::load_n(x + i, count), out + i, count);
    }
  });
}

/// Returns v / scale as 16 integers, rounded to nearest, ties to even, and clamped to [-127, 127].
inline void store_int8(Lanes v, Lanes scale, int8_t* out) {
  const Lanes limit = Lanes::all(127.0f);
  const Lanes within = Lanes::max(Lanes::min(Lanes::div(v, scale), limit), Lanes::all(-127.0f));
  float whole[16];
  Lanes::store(Lanes::round(within), whole);
  for (int i = 0; i < 16; ++i) out[i] = static_cast<int8_t>(whole[i]);
}

void to_q8(const float* x, int64_t n, int8_t* out, uint16_t* scales) {
  const Lanes zero = Lanes::all(0.0f);
  for (int64_t i = 0; i < n; i += kKvGroup, ++scales) {
    const Lanes low = Lanes::load(x + i), high = Lanes::load(x + i + 16);
    const Lanes sizes = Lanes::max(Lanes::max(low, Lanes::sub(zero, low)),  //
                                   Lanes::max(high, Lanes::sub(zero, high)));
    // 0 times a number is 0 unless the number is an infinity or a NaN.
    const Lanes poison = Lanes::add(Lanes::mul(low, zero), Lanes::mul(high, zero));
    const Lanes largest = Lanes::all(Lanes::largest(sizes) + Lanes::sum(poison));
    Lanes::store_half_n(Lanes::div(largest, Lanes::all(127.0f)), scales, 1);
    const bool finite = (*scales & 0x7c00) != 0x7c00;
    if (!finite) *scales = kKvPoison;
    if (!finite || *scales == 0) {
      for (int j = 0; j < kKvGroup; ++j) out[i + j] = 0;
      continue;
    }
    const Lanes scale = Lanes::all_half(*scales);
    store_int8(low, scale, out + i);
    store_int8(high, scale, out + i + 16);
  }
}

}  // namespace
}  // namespace hearth
