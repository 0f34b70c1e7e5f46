// Counts and collects the neurons that the tokens of a step want.
#include "kernels/neurons.h"

#include <bit>
#include <stdexcept>
#include <string>

namespace hearth {

NeuronSetId next_set(size_t n_made, size_t n_reserved) {
  if (n_made < n_reserved) return NeuronSetId(static_cast<int>(n_made));
  throw std::logic_error(
      "Memory for " + std::to_string(n_reserved) +
      " sets of neurons was reserved, but one more is requested; this is a mistake in Hearth.");
}

int64_t NeuronSet::count() const {
  int64_t n = 0;
  for (size_t i = 0; i < static_cast<size_t>(n_tokens_) * words(); ++i) n += std::popcount(wanted_[i]);
  return n;
}

void NeuronSet::collect() {
  std::fill_n(any_.begin(), words(), 0);
  for (int t = 0; t < n_tokens_; ++t) {
    const uint64_t* bits = wanted(t);
    for (size_t w = 0; w < words(); ++w) any_[w] |= bits[w];
  }
  int32_t* id = ids_.data();
  for (size_t w = 0; w < words(); ++w) {
    for (uint64_t left = any_[w]; left != 0; left &= left - 1) {
      *id++ = static_cast<int32_t>(w * 64 + static_cast<size_t>(std::countr_zero(left)));
    }
  }
  n_ids_ = static_cast<size_t>(id - ids_.data());
}

}  // namespace hearth
