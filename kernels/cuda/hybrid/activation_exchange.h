// Exchanges activations in the middle of a step: the device hands arrays over to the host, and the host
// returns an array that the device adds to its own.
//
// Mixture-of-experts layers use this. The CPU needs two arrays: the router's logits or the experts that the
// device chose, and the input of the experts. The device needs the sum of the experts' outputs. One kernel
// writes both arrays to pinned memory, and then a number that the host polls (hand_over.cu). The kernel that
// adds the host's sum reads the sum over PCIe. So a layer needs no stream synchronization and no copy.
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
  /// Allocates pinned memory for a layer's logits, input and output. Call it at load if the model has
  /// experts.
  void reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch);

  /// Begins a hand-over of two arrays in device memory. The caller must enqueue the returned hand-over.
  /// Afterward arrived() returns the addresses of the two arrays in host memory.
  HandOver begin(std::span<const float> first, std::span<const float> second);
  Backend::HandedOver arrived() const { return {first_.data(), second_.data()}; }

  /// Waits until the last hand-over has arrived. Work that was enqueued after it may still run. Throws like
  /// wait_for_number().
  void wait(cudaStream_t stream);

  /// Copies n floats to pinned memory and returns their address there, for the next work that is enqueued.
  /// REQUIRES: wait() was called after the last call of give(), so the device has read the previous floats.
  const float* give(const float* x, int64_t n);

 private:
  PinnedArray<float> first_, second_, given_;
  PinnedArray<uint32_t> number_;
  uint32_t* state_ = nullptr;  // device memory: HandOver::state
  uint32_t n_begun_ = 0;       // number of hand-overs begun, which the device also counts
  bool given_is_free_ = true;
};

}  // namespace hearth::cuda
