// The neurons that each FFN call of a step found active. The device writes its neurons to pinned host memory
// while it works, and the CPU adds the neurons that it computed. The engine reads the list after the step, so
// it never waits for the device to count neurons.
//
// Each call has one list of neurons. The device fills the list from the front and the CPU from the back. No
// neuron is noted by both, and the list has room for all neurons. Owned by DeviceWork; engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/neurons.h"

namespace hearth::cuda {

class NotedNeurons {
 public:
  /// Bytes of pinned memory that reserve() takes.
  static double bytes_needed(int n_calls, int max_tokens, int64_t n_neurons);

  /// Allocates bytes_needed() bytes, and frees the memory of the last call of reserve(). `state`: two words
  /// of device memory, both 0. Throws std::bad_alloc, after which no neurons can be noted. REQUIRES: the
  /// device has finished the last step.
  void reserve(int n_calls, int max_tokens, int64_t n_neurons, uint32_t* state);

  /// Begins a step and forgets the neurons of the last step. REQUIRES: the device has finished the last step.
  void begin_step();

  /// Begins the step's next call. Returns the memory where the device notes its neurons.
  NeuronNotes begin(int n_tokens, int64_t n_neurons);
  /// Notes active neurons of the CPU for the current call. These are the neurons of `set` that `found`
  /// contains.
  void add(const NeuronSet& set, const ActiveNeurons& found);

  /// Fills `found` with the active neurons of the step's call with index `call`. REQUIRES: the device has
  /// finished the call.
  void read(int call, const ActiveNeurons& found) const;

 private:
  struct Call {
    int n_tokens = 0;
    int64_t n_neurons = 0;
    int64_t n_of_cpu = 0;  // number of neurons at the end of the call's list
  };
  int32_t* ids(size_t call) const { return ids_.data() + call * n_neurons_; }
  float* values(size_t call) const { return values_.data() + call * n_neurons_ * max_tokens_; }

  size_t max_tokens_ = 0, n_neurons_ = 0;
  uint32_t* state_ = nullptr;
  std::vector<Call> calls_;            // calls of the current step; reserve() sets the capacity
  PinnedArray<uint32_t> n_of_device_;  // [n_calls]
  PinnedArray<int32_t> ids_;           // [n_calls, n_neurons]
  PinnedArray<float> values_;          // [n_calls, max_tokens, n_neurons]
};

}  // namespace hearth::cuda
