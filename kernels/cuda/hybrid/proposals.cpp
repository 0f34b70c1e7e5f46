// See the header.
#include "kernels/cuda/hybrid/proposals.h"

#include <span>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/flag_wait.h"

namespace hearth::cuda {

void Proposals::reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].bits = PinnedArray<uint64_t>((static_cast<size_t>(bounds.max_cols) + 63) / 64);
    entries_[i].number = PinnedArray<uint32_t>(1);
    *entries_[i].number.data() = 0;
    check(
        cudaMemsetAsync(scratch.hand_over_proposals[i], 0, HandOver::kStateWords * sizeof(uint32_t), stream),
        "clearing the count of proposals");
  }
}

HandOver Proposals::begin(const HybridLayer& in, int layer, const uint64_t* any, int64_t n_neurons,
                          const Scratch& scratch) {
  const size_t i = static_cast<size_t>(in.place) % entries_.size();
  Entry& entry = entries_[i];
  entry.layer = layer;
  entry.words = static_cast<size_t>((n_neurons + 63) / 64);
  ++entry.n_begun;
  HandOver what{.parts = {}, .state = scratch.hand_over_proposals[i], .number = entry.number.data()};
  what.parts[0] = {any, entry.bits.data(), static_cast<int64_t>(entry.words) * 2};
  return what;
}

void Proposals::deliver(const HybridLayer& after, cudaStream_t stream, NeuronTraffic* traffic) {
  Entry& entry = entries_[static_cast<size_t>(after.place + 1) % entries_.size()];
  if (entry.layer < 0) return;
  wait_for_number(*entry.number.data(), entry.n_begun, stream, "a later layer's neurons");
  if (traffic != nullptr) traffic->proposed(entry.layer, std::span(entry.bits.data(), entry.words));
  entry.layer = -1;
}

}  // namespace hearth::cuda
