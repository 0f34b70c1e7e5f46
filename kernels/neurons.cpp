// The union of what a step's tokens want.
#include "kernels/neurons.h"

#include <bit>

namespace hearth {

void NeuronSet::collect() {
  ids_.clear();
  for (size_t w = 0; w < words(); ++w) {
    uint64_t any = 0;
    for (int t = 0; t < n_tokens_; ++t) any |= wanted(t)[w];
    for (; any != 0; any &= any - 1) {
      ids_.push_back(static_cast<int32_t>(w * 64 + static_cast<size_t>(std::countr_zero(any))));
    }
  }
}

}  // namespace hearth
