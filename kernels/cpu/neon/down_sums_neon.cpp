// DownSumsKernels for NEON. Only the table may have external linkage.
#include "kernels/cpu/neon/strips_neon.h"
#include "kernels/cpu/simd/down_sums.h"
#include "kernels/cpu/simd/terms_plain.h"

namespace hearth {
namespace {

struct NeonSums : NeonDown {
  static Strip all(float value) {
    return each([&](int) { return vdupq_n_f32(value); });
  }
  static Strip all_bits(uint32_t bits) { return all(__builtin_bit_cast(float, bits)); }
  static Strip sub(const Strip& a, const Strip& b) {
    return each([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
  }
  static Strip add_bits(const Strip& a, const Strip& b) {
    return each([&](int i) {
      return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(a.v[i]), vreinterpretq_u32_f32(b.v[i])));
    });
  }
  /// Returns a strip whose first register is differing.v[0], combined (by OR) with all registers of a ^ b.
  /// The other registers of the result are not used.
  static Strip or_differing(Strip differing, const Strip& a, const Strip& b) {
    uint32x4_t any = vreinterpretq_u32_f32(differing.v[0]);
    for (int i = 0; i < 8; ++i) {
      any = vorrq_u32(any, veorq_u32(vreinterpretq_u32_f32(a.v[i]), vreinterpretq_u32_f32(b.v[i])));
    }
    differing.v[0] = vreinterpretq_f32_u32(any);
    return differing;
  }
  static bool exponents(const Strip& bits) {
    const uint32x4_t exponent = vdupq_n_u32(SumParts::kExponent);
    return vmaxvq_u32(vandq_u32(vreinterpretq_u32_f32(bits.v[0]), exponent)) != 0;
  }
};

}  // namespace

const DownSumsKernels kDownSumsNeon = down_sums_table<NeonSums, PlainTerms>();

}  // namespace hearth
