// The activation functions of FFNs on the device. They have the same bits as on the CPU, because they follow
// gated_activation() in kernels/cpu/lanes/rows_inl.h operation by operation.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/rows/exponential.cuh"

namespace hearth::cuda {

/// Returns the larger operand, or `b` if either operand is NaN. x86's instructions do the same, and the CPU's
/// kernels rely on it.
__device__ __forceinline__ float max_or_second(float a, float b) { return a > b ? a : b; }
__device__ __forceinline__ float min_or_second(float a, float b) { return a < b ? a : b; }

/// x / (1 + e^-x).
__device__ __forceinline__ float silu(float x) {
  return __fdiv_rn(x, __fadd_rn(1.0f, exponential(__fsub_rn(0.0f, x))));
}

__device__ __forceinline__ float gelu_erf(float x) {
  const float size = max_or_second(__fsub_rn(0.0f, x), x);
  const float z = __fmul_rn(size, 0.707106781f);
  const float t = __fdiv_rn(1.0f, __fmaf_rn(z, 0.3f, 1.0f));
  float p = -0.13064171f;
  p = __fmaf_rn(p, t, 0.49115634f);
  p = __fmaf_rn(p, t, -0.5242092f);
  p = __fmaf_rn(p, t, 0.5618781f);
  p = __fmaf_rn(p, t, -0.1048535f);
  p = __fmaf_rn(p, t, 0.2194899f);
  p = __fmaf_rn(p, t, 0.14710373f);
  p = __fmaf_rn(p, t, 0.17090003f);
  p = __fmaf_rn(p, t, 0.16917633f);
  const float decay = exponential(__fsub_rn(0.0f, __fmul_rn(z, z)));
  const float half_erfc = __fmul_rn(__fmul_rn(0.5f, __fmul_rn(t, p)), decay);
  const float tail = __fmul_rn(min_or_second(20.0f, size), half_erfc);
  return __fsub_rn(max_or_second(0.0f, x), tail);
}

/// ln(1 + e^x), operation by operation as in kernels/cpu/lanes/rows_inl.h.
__device__ __forceinline__ float softplus(float x) {
  const float e = exponential(min_or_second(__fsub_rn(0.0f, x), x));
  const float s = __fdiv_rn(e, __fadd_rn(2.0f, e));
  const float square = __fmul_rn(s, s);
  float p = 1.0f / 15.0f;
  p = __fmaf_rn(p, square, 1.0f / 13.0f);
  p = __fmaf_rn(p, square, 1.0f / 11.0f);
  p = __fmaf_rn(p, square, 1.0f / 9.0f);
  p = __fmaf_rn(p, square, 1.0f / 7.0f);
  p = __fmaf_rn(p, square, 1.0f / 5.0f);
  p = __fmaf_rn(p, square, 1.0f / 3.0f);
  p = __fmaf_rn(p, square, 1.0f);
  return __fmaf_rn(__fadd_rn(s, s), p, max_or_second(0.0f, x));
}

/// The numbers of an activation, as an argument of kernels.
struct ActivationNumbers {
  float bound = 0.0f;  // FATReLU: the smallest value that it keeps, or 0; kSwigluClamped: the limit
  Xielu xielu = {};
};

/// Host code.
inline ActivationNumbers numbers_of(const FfnActivation& act) {
  if (act.kind == Activation::kSwigluClamped) return {.bound = act.limit};
  // FATReLU keeps what is above its threshold.
  const float least = act.threshold > 0.0f ? __builtin_nextafterf(act.threshold, __builtin_inff()) : 0.0f;
  return {.bound = least, .xielu = act.xielu};
}

/// Operation by operation as in kernels/cpu/lanes/rows_inl.h, which explains them.
__device__ __forceinline__ float xielu(float x, const Xielu& numbers) {
  const float linear = __fmul_rn(numbers.beta, x);
  const float positive = __fmaf_rn(__fmul_rn(numbers.alpha_p, x), x, linear);
  const float m = min_or_second(numbers.eps, x);
  float p = 1.0f / 40320.0f;
  p = __fmaf_rn(p, m, 1.0f / 5040.0f);
  p = __fmaf_rn(p, m, 1.0f / 720.0f);
  p = __fmaf_rn(p, m, 1.0f / 120.0f);
  p = __fmaf_rn(p, m, 1.0f / 24.0f);
  p = __fmaf_rn(p, m, 1.0f / 6.0f);
  p = __fmaf_rn(p, m, 0.5f);
  const float flat = __fmul_rn(__fmul_rn(m, m), p);
  const float steep = __fsub_rn(__fsub_rn(exponential(m), 1.0f), m);
  const float g = __fadd_rn(m < -0x1.fffffep-2f ? 0.0f : flat, __fsub_rn(0.0f, m) < 0.5f ? 0.0f : steep);
  const float negative = __fmaf_rn(numbers.alpha_n, __fadd_rn(g, __fsub_rn(m, x)), linear);
  return __fadd_rn(x < 0x1p-149f ? 0.0f : positive, __fsub_rn(0.0f, x) < 0.0f ? 0.0f : negative);
}

/// Returns act(x).
template <Activation kKind>
__device__ __forceinline__ float activated(float x, const ActivationNumbers& numbers) {
  if constexpr (kKind == Activation::kSilu) {
    return silu(x);
  } else if constexpr (kKind == Activation::kGelu) {
    constexpr float kCubic = -2.0f * 0.797884561f * 0.044715f, kLinear = -2.0f * 0.797884561f;
    const float slope = __fmaf_rn(__fmul_rn(x, x), kCubic, kLinear);
    return __fdiv_rn(x, __fadd_rn(1.0f, exponential(__fmul_rn(slope, x))));
  } else if constexpr (kKind == Activation::kGeluErf) {
    return gelu_erf(x);
  } else if constexpr (kKind == Activation::kRelu) {
    if (numbers.bound > 0.0f) return x < numbers.bound ? 0.0f : x;
    return max_or_second(0.0f, x);
  } else if constexpr (kKind == Activation::kRelu2) {
    const float positive = max_or_second(0.0f, x);
    return __fmul_rn(positive, positive);
  } else if constexpr (kKind == Activation::kSwigluOai) {
    const float g = min_or_second(7.0f, x);
    return __fdiv_rn(g, __fadd_rn(1.0f, exponential(__fmul_rn(-1.702f, g))));
  } else if constexpr (kKind == Activation::kSigmoid) {
    return sigmoid(x);
  } else if constexpr (kKind == Activation::kIdentity) {
    return x;
  } else if constexpr (kKind == Activation::kSoftplus) {
    return softplus(x);
  } else if constexpr (kKind == Activation::kSwigluClamped) {
    return min_or_second(numbers.bound, silu(x));
  } else if constexpr (kKind == Activation::kXielu) {
    return xielu(x, numbers.xielu);
  } else {
    return max_or_second(0.0f, x);  // dReLU: gated() calls this for the gate and for up
  }
}

/// Returns act(gate) * up, or act(gate) if `up` is null. For dReLU, the product is relu(gate) * relu(up). For
/// gpt-oss (kSwigluOai), it is act(gate) * (clamp(up, -7, 7) + 1). kSwigluClamped clamps up to its limit.
template <Activation kKind>
__device__ __forceinline__ float gated(float gate, const float* up, const ActivationNumbers& numbers) {
  const float value = activated<kKind>(gate, numbers);
  if (up == nullptr) return value;
  if constexpr (kKind == Activation::kDRelu) return __fmul_rn(value, activated<kKind>(*up, numbers));
  if constexpr (kKind == Activation::kSwigluOai) {
    return __fmul_rn(value, __fadd_rn(min_or_second(7.0f, max_or_second(-7.0f, *up)), 1.0f));
  }
  if constexpr (kKind == Activation::kSwigluClamped) {
    return __fmul_rn(value, min_or_second(numbers.bound, max_or_second(-numbers.bound, *up)));
  }
  return __fmul_rn(value, *up);
}

/// Calls visit.template operator()<kKind>(), where kKind is the activation's kind. Host code.
template <class Visitor>
void visit_activation(Activation kind, Visitor&& visit) {
  switch (kind) {
    case Activation::kSilu:
      return visit.template operator()<Activation::kSilu>();
    case Activation::kGelu:
      return visit.template operator()<Activation::kGelu>();
    case Activation::kGeluErf:
      return visit.template operator()<Activation::kGeluErf>();
    case Activation::kRelu:
      return visit.template operator()<Activation::kRelu>();
    case Activation::kRelu2:
      return visit.template operator()<Activation::kRelu2>();
    case Activation::kDRelu:
      return visit.template operator()<Activation::kDRelu>();
    case Activation::kSwigluOai:
      return visit.template operator()<Activation::kSwigluOai>();
    case Activation::kSigmoid:
      return visit.template operator()<Activation::kSigmoid>();
    case Activation::kIdentity:
      return visit.template operator()<Activation::kIdentity>();
    case Activation::kSoftplus:
      return visit.template operator()<Activation::kSoftplus>();
    case Activation::kSwigluClamped:
      return visit.template operator()<Activation::kSwigluClamped>();
    case Activation::kXielu:
      return visit.template operator()<Activation::kXielu>();
  }
}

}  // namespace hearth::cuda
