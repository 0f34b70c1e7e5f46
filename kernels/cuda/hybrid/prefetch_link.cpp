// Implements PrefetchLink.
#include "kernels/cuda/hybrid/prefetch_link.h"

#include <algorithm>
#include <cassert>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/flag_wait.h"

namespace hearth::cuda {

void PrefetchLink::reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch) {
  changes_ = PinnedArray<RowChanges>(1);
  for (size_t i = 0; i < proposals_.size(); ++i) {
    proposals_[i].bits = PinnedArray<uint64_t>((static_cast<size_t>(bounds.max_cols) + 63) / 64);
    proposals_[i].number = PinnedArray<uint32_t>(1);
    *proposals_[i].number.data() = 0;
    check(
        cudaMemsetAsync(scratch.hand_over_proposals[i], 0, HandOver::kStateWords * sizeof(uint32_t), stream),
        "clearing the count of proposals");
  }
}

const RowChanges* PrefetchLink::changes(const HybridLayer& layer, const StepRecorder& recorder) {
  due_ = prefetcher_ != nullptr;
  if (!due_) return nullptr;
  if (recorder.enqueues_at_once()) fetch(layer);
  return changes_.data();
}

void PrefetchLink::fetch(const HybridLayer& layer) {
  const std::span<const RowChange> changes = prefetcher_->changes(layer.layer);
  assert(changes.size() <= RowPrefetcher::kMaxChanges);
  RowChanges& list = *changes_.data();
  list.n = static_cast<int32_t>(changes.size());
  std::copy(changes.begin(), changes.end(), list.list);
  due_ = false;
}

HandOver PrefetchLink::begin_proposal(const HybridLayer& in, int layer, const uint64_t* any,
                                      int64_t n_neurons, const Scratch& scratch) {
  const size_t i = static_cast<size_t>(in.place) % proposals_.size();
  Proposed& proposed = proposals_[i];
  proposed.layer = layer;
  proposed.words = static_cast<size_t>((n_neurons + 63) / 64);
  ++proposed.n_begun;
  HandOver what{.parts = {}, .state = scratch.hand_over_proposals[i], .number = proposed.number.data()};
  what.parts[0] = {any, proposed.bits.data(), static_cast<int64_t>(proposed.words) * 2};
  return what;
}

void PrefetchLink::deliver_proposal(const HybridLayer& after, cudaStream_t stream) {
  Proposed& proposed = proposals_[static_cast<size_t>(after.place + 1) % proposals_.size()];
  if (proposed.layer < 0) return;
  wait_for_number(*proposed.number.data(), proposed.n_begun, stream, "a later layer's neurons");
  if (prefetcher_ != nullptr)
    prefetcher_->proposed(proposed.layer, std::span(proposed.bits.data(), proposed.words));
  proposed.layer = -1;
}

}  // namespace hearth::cuda
