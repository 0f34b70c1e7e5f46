// Integer and floating-point intrinsics of kernels, computed by their definitions.
//
// The rounded intrinsics (__fadd_rn and so on) have the device's bits if this is compiled with
// -ffp-contract=off. The fast ones (__expf, __fdividef, rsqrtf) are exact here and approximate on a device.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tests/support/cudaemu/builtins.h"
#include "tests/support/cudaemu/device_thread.h"

// ---- bits and integers -----------------------------------------------------------------------------------

/// Four products of bytes, added to c modulo 2^32.
inline int __dp4a(int a, int b, int c) {
  unsigned sum = static_cast<unsigned>(c);
  for (int i = 0; i < 4; ++i)
    sum += static_cast<unsigned>(static_cast<int8_t>(a >> 8 * i) * static_cast<int8_t>(b >> 8 * i));
  return static_cast<int>(sum);
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}
/// The low 3 bits of nibble i of `selector` pick a byte of y:x. Byte i of the result is that byte or, if the
/// nibble's top bit is set, eight copies of the byte's sign bit.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned choice = selector >> 4 * i & 15;
    const unsigned byte = bytes >> 8 * (choice & 7) & 255;
    result |= (choice & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return result;
}
inline int __popc(unsigned v) { return std::popcount(v); }
inline int __popcll(unsigned long long v) { return std::popcount(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __float_as_int(float f) { return std::bit_cast<int>(f); }
inline float __int_as_float(int i) { return std::bit_cast<float>(i); }
inline unsigned __float_as_uint(float f) { return std::bit_cast<unsigned>(f); }
inline float __uint_as_float(unsigned i) { return std::bit_cast<float>(i); }
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}

// ---- rounded once, to nearest even -----------------------------------------------------------------------

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
inline float __ll2float_rn(long long v) { return static_cast<float>(v); }

namespace hearth::cudaemu {

/// f converted to an integer type, clamped to the type's range.
template <class T>
T saturated(float f) {
  // The least float that is too large: 2^31 or 2^63.
  constexpr float kTooLarge = -static_cast<float>(std::numeric_limits<T>::min());
  if (f >= kTooLarge) return std::numeric_limits<T>::max();
  if (f < -kTooLarge) return std::numeric_limits<T>::min();
  return static_cast<T>(f);
}

}  // namespace hearth::cudaemu

// NaN converts to 0 as an int, and to the smallest value as a long long.
inline int __float2int_rn(float f) { return f != f ? 0 : hearth::cudaemu::saturated<int>(nearbyintf(f)); }
inline int __float2int_rz(float f) { return f != f ? 0 : hearth::cudaemu::saturated<int>(truncf(f)); }
inline long long __float2ll_rn(float f) {
  return f != f ? std::numeric_limits<long long>::min()
                : hearth::cudaemu::saturated<long long>(nearbyintf(f));
}

// ---- fast on a device ------------------------------------------------------------------------------------

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float a) { return fminf(fmaxf(a, 0.0f), 1.0f); }
// glibc declares these names for internal use and exports none of them.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)

// ---- loads and stores past the cache ---------------------------------------------------------------------

template <class T>
T __ldg(const T* p, HEARTH_CUDAEMU_HERE) {
  hearth::cudaemu::check_aligned(p, alignof(T), here);
  return *p;
}
template <class T>
T __ldcs(const T* p, HEARTH_CUDAEMU_HERE) {
  hearth::cudaemu::check_aligned(p, alignof(T), here);
  return *p;
}
template <class T>
void __stcs(T* p, T value, HEARTH_CUDAEMU_HERE) {
  hearth::cudaemu::check_aligned(p, alignof(T), here);
  *p = value;
}
