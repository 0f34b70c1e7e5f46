// See the header.
#include "kernels/cuda/sharing/proposals.h"

#include <span>

#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/sharing/number_wait.h"

namespace hearth::cuda {

void Proposals::reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].bits = PinnedArray<uint64_t>((static_cast<size_t>(bounds.max_cols) + 63) / 64);
    slots_[i].number = PinnedArray<uint32_t>(1);
    *slots_[i].number.data() = 0;
    check(
        cudaMemsetAsync(scratch.hand_over_proposals[i], 0, HandOver::kStateWords * sizeof(uint32_t), stream),
        "clearing the count of proposals");
  }
}

HandOver Proposals::begin(const HybridLayer& in, int layer, const uint64_t* any, int64_t n_neurons,
                          const Scratch& scratch) {
  const size_t i = static_cast<size_t>(in.place) % slots_.size();
  Slot& slot = slots_[i];
  slot.layer = layer;
  slot.words = static_cast<size_t>((n_neurons + 63) / 64);
  ++slot.n_begun;
  HandOver what{.parts = {}, .state = scratch.hand_over_proposals[i], .number = slot.number.data()};
  what.parts[0] = {any, slot.bits.data(), static_cast<int64_t>(slot.words) * 2};
  return what;
}

void Proposals::deliver(const HybridLayer& after, cudaStream_t stream, NeuronTraffic* traffic) {
  Slot& slot = slots_[static_cast<size_t>(after.place + 1) % slots_.size()];
  if (slot.layer < 0) return;
  wait_for_number(*slot.number.data(), slot.n_begun, stream, "a later layer's neurons");
  if (traffic != nullptr) traffic->proposed(slot.layer, std::span(slot.bits.data(), slot.words));
  slot.layer = -1;
}

}  // namespace hearth::cuda
