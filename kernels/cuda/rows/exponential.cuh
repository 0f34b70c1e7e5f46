// e^x, the sigmoid and the soft cap, with the same bits as in kernels/cpu/lanes/rows_inl.h. Kernels of
// attention, experts and rows use them.
//
// e^x takes some 20 operations, each rounded as on the CPU. expf() would be about as fast, but its last bit
// differs. Only the bits of NaNs may differ from the CPU's, because the device has one NaN and x86 has many.
#pragma once

#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// Returns e^x. The result is exactly 0 if x < -87.33, exactly 1 if x is 0, and the finite e^88.37 if x >
/// 88.37. A NaN stays a NaN.
__device__ inline float exponential(float x) {
  constexpr float kLow = -87.33f;
  // If x is NaN, the comparisons are false and x is kept.
  const float above = kLow > x ? kLow : x;
  const float clamped = above > 88.37f ? 88.37f : above;
  // Adding 1.5 * 2^23 rounds to a whole number, with ties to even, and puts this number into the lowest bits.
  constexpr float kShift = 0x1.8p23f;
  const float shifted = __fadd_rn(__fmul_rn(clamped, 1.44269504f), kShift);
  const float n = __fsub_rn(shifted, kShift);
  const float power = __uint_as_float((__float_as_uint(shifted) - __float_as_uint(kShift) + 127u) << 23);
  float r = __fmaf_rn(n, -0.693359375f, clamped);
  r = __fmaf_rn(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = __fmaf_rn(p, r, 1.3981999507e-3f);
  p = __fmaf_rn(p, r, 8.3334519073e-3f);
  p = __fmaf_rn(p, r, 4.1665795894e-2f);
  p = __fmaf_rn(p, r, 1.6666665459e-1f);
  p = __fmaf_rn(p, r, 5.0000001201e-1f);
  p = __fadd_rn(__fmaf_rn(p, __fmul_rn(r, r), r), 1.0f);
  return x < kLow ? 0.0f : __fmul_rn(p, power);
}

/// Returns 1 / (1 + e^-x), with the bits of sigmoid() in kernels/cpu/lanes/rows_inl.h.
__device__ inline float sigmoid(float x) {
  return __fdiv_rn(1.0f, __fadd_rn(1.0f, exponential(__fsub_rn(0.0f, x))));
}

/// Returns cap * tanh(score / cap), with the bits of soft_capped() in kernels/cpu/lanes/rows_inl.h.
__device__ inline float capped(float score, float cap) {
  const float x = __fmul_rn(score, __fdiv_rn(1.0f, cap));
  const float power = exponential(__fadd_rn(x, x));
  const float steep = __fsub_rn(1.0f, __fdiv_rn(2.0f, __fadd_rn(1.0f, power)));
  const float square = __fmul_rn(x, x);
  float p = -5.70498872745e-3f;
  p = __fmaf_rn(p, square, 2.06390887954e-2f);
  p = __fmaf_rn(p, square, -5.37397155531e-2f);
  p = __fmaf_rn(p, square, 1.33314422036e-1f);
  p = __fmaf_rn(p, square, -3.33332819422e-1f);
  const float flat = __fmaf_rn(__fmul_rn(p, square), x, x);
  return __fmul_rn(cap, (x < 0.0f ? -x : x) < 0.625f ? flat : steep);
}

}  // namespace hearth::cuda
