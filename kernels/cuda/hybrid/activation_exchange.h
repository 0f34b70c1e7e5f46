// Exchanges activations in the middle of a step: the device hands arrays over to the host, and the host
// returns an array that is added to the device's.
//
// Layers of experts use it: the CPU needs the router's logits, or the device's choice, and the experts'
// input; the device needs the sum of the experts' outputs. One kernel writes both arrays to pinned memory and
// then a number, which the host polls (hand_over.cu). The kernel that adds the host's sum reads it over PCIe.
// So a layer needs no stream synchronization and no copy.
//
// Owned by CudaBackend; engine thread.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/scratch.h"

namespace hearth::cuda {

class ActivationExchange {
 public:
  /// Allocates pinned memory for a layer's logits and its input and output. At load, where there are experts.
  void reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch);

  /// Begins a hand-over of two arrays in device memory. The caller must enqueue the returned hand-over.
  /// arrived() returns the arrays' host addresses.
  HandOver begin(std::span<const float> first, std::span<const float> second);
  Backend::HandedOver arrived() const { return {first_.data(), second_.data()}; }

  /// Waits until the last hand-over has arrived; work enqueued behind it may still run. Throws like
  /// wait_for_number().
  void wait(cudaStream_t stream);

  /// Copies n floats to pinned memory, which the device reads in the work that is enqueued next.
  /// REQUIRES: wait() was called since the last call, so the device has read the previous floats.
  const float* give(const float* x, int64_t n);

 private:
  PinnedArray<float> first_, second_, given_;
  PinnedArray<uint32_t> number_;
  uint32_t* state_ = nullptr;  // device memory: HandOver::state
  uint32_t n_begun_ = 0;       // hand-overs begun, as the device counts them
  bool given_is_free_ = true;
};

}  // namespace hearth::cuda
