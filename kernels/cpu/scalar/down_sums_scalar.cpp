// DownSumsKernels in plain C++: the definition of kernels/neuron_sums.h, product by product.
#include "kernels/cpu/scalar/strips_scalar.h"
#include "kernels/cpu/simd/down_sums.h"

namespace hearth {
namespace {

struct ScalarSums : ScalarDown {
  struct Sums {
    int64_t v[kStripColumns];
  };
  static float folded(float value) { return value; }
  template <bool>
  static Sums load_sums(const int64_t* p) {
    Sums s;
    std::memcpy(s.v, p, sizeof s.v);
    return s;
  }
  template <bool>
  static void store_sums(const Sums& s, int, int64_t* p) {
    std::memcpy(p, s.v, sizeof s.v);
  }
  static void add_product(float value, const Strip& weights, Sums& s) {
    for (int i = 0; i < kStripColumns; ++i) s.v[i] += contribution(value, weights.v[i]);
  }
};

}  // namespace

const DownSumsKernels kDownSumsScalar = down_sums_table<ScalarSums>();

}  // namespace hearth
