// DownSumsKernels in plain C++: computes the definition in kernels/neuron_sums.h, product by product.
#include "kernels/cpu/scalar/strips_scalar.h"
#include "kernels/cpu/simd/down_sums.h"
#include "kernels/cpu/simd/terms_plain.h"

namespace hearth {
namespace {

struct ScalarSums : ScalarDown {
  static Strip all(float value) {
    return each([&](int) { return value; });
  }
  static Strip all_bits(uint32_t bits) { return all(__builtin_bit_cast(float, bits)); }
  /// exponents() returns true, so sum_strip() in down_sums.h adds each contribution exactly, and does not use
  /// the results of fma(), sub() and or_differing(). Sums in parts would need fused multiply-adds, which
  /// would be function calls.
  static Strip fma(float, const Strip&, const Strip&) { return zero(); }
  static Strip sub(const Strip&, const Strip&) { return zero(); }
  static Strip or_differing(const Strip& differing, const Strip&, const Strip&) { return differing; }
  static bool exponents(const Strip&) { return true; }
  static Strip add_bits(const Strip& a, const Strip& b) {
    return each([&](int i) {
      const auto sum = __builtin_bit_cast(uint32_t, a.v[i]) + __builtin_bit_cast(uint32_t, b.v[i]);
      return __builtin_bit_cast(float, sum);
    });
  }
};

}  // namespace

const DownSumsKernels kDownSumsScalar = down_sums_table<ScalarSums, PlainTerms>();

}  // namespace hearth
