// The engine's interface to a device that computes beside the CPU. The device has a backend for its
// arithmetic and a hybrid FFN for the layers that it shares with the CPU. The host enqueues the device's work
// and does not wait for it. So a device can record the work of a step and play it back, and it reports active
// neurons only after the step.
//
// kernels/cuda/cuda_backend.h creates the only implementation. Engine thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "kernels/backend.h"
#include "kernels/hybrid_experts.h"
#include "kernels/hybrid_ffn.h"
#include "kernels/neurons.h"

namespace hearth {

/// Identifies the calls that a step makes. Steps of the same shape make the same calls and differ only in the
/// numbers in their arrays, so a device may record the work of one step and play it back for a later step of
/// the same shape.
struct StepShape {
  int n_tokens = 0;
  int n_logit_rows = 0;
  int n_tables = 0;  // KvPlaces::n_tables
  int longest = 0;   // the largest number of keys that a token sees
  // Whether the step yields logits for every token, no library multiplies prompt tokens, and the host reads
  // no layer's results. Most steps that only decode are such steps. They repeat, so the device records them.
  bool decoding = false;
  // Whether the step reports single neurons (NeuronCounts::found is set) or choices of experts.
  bool notes = false;
  int predictor = 0;  // 0: the step runs the model; n: the n-th layer that predicts later tokens

  bool operator==(const StepShape&) const = default;
};

/// Rounds StepShape::longest up to the largest number of its class. Because `longest` grows with every token,
/// all decoding steps of one class share a recording. Attention is cut into slices of 256 keys, so contexts
/// of up to 256 keys form one class. Each longer class ends at the next power of two.
constexpr int longest_class(int longest) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(longest, 256))));
}

class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  virtual Backend& backend() = 0;
  virtual HybridFfn& hybrid_ffn() = 0;
  /// Null if the device holds no experts (StepBounds::max_expert_tokens is 0).
  virtual HybridExperts* hybrid_experts() { return nullptr; }

  /// Allocates scratch for steps within these bounds, for the backend and the hybrid FFN. At load only, once.
  virtual void reserve(const StepBounds& bounds) = 0;

  /// Begins a step. During one step, all calls of the backend have the same positions, and their KvPlaces
  /// have at most two different arrays of block tables: layers with a window may have an array of their own.
  virtual void begin_step(const StepShape& shape) = 0;

  /// The name of the library that multiplies prompt tokens, for example "cuBLASLt 13.1.0". Empty if no
  /// library is used; then all products have the same bits as the CPU's.
  virtual std::string prompt_library() const { return {}; }
  /// The reason, as a phrase, why no library is used although StepBounds::library_rows requested one; else
  /// empty.
  virtual std::string why_no_prompt_library() const { return {}; }
  /// Sets which rows of the following Backend::matmul() calls are prompt tokens, in ascending order. If a
  /// library is used, it multiplies these rows. begin_step() empties the list. REQUIRES: if a library is used
  /// and the list is not empty, the step is not `decoding` (StepShape), so that it is not recorded.
  virtual void set_prompt_rows(std::span<const int32_t> /*rows*/) {}

  /// The smallest number of prompt tokens with which a step uses the same kernels, buffers and copies as all
  /// longer steps.
  virtual int long_step() const = 0;

  /// Whether a step of n_tokens is long enough for the device to compute layers that are in host memory. If
  /// so, the backend's matmul() accepts weights in host memory and copies them piece by piece. kv_append()
  /// and attention() then accept a KvLayer in host memory: they copy the KV blocks that the step needs to the
  /// device, and copy back the KV blocks that the step wrote. All other pointers must still point to device
  /// memory. attention() must follow kv_append() of the same layer and places. Such calls REQUIRE:
  /// StepBounds::stream_bytes and stream_kv_bytes are not 0, and the step is not `decoding`.
  virtual bool streams_layers(int n_tokens) const = 0;
  /// Page-locks host memory (which may be read-only) from which or to which a streamed layer is copied.
  /// Returns false if the system refuses; copying is then slower. The memory must outlive the device. Called
  /// at load.
  virtual bool pin_to_copy(const std::byte* host, size_t bytes) = 0;

  /// Copies bytes of host memory to memory from backend().allocate(), and waits for the end of the copy. At
  /// load.
  virtual void copy_in(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

  /// Discards all recorded steps. Called before steps that use other weights or run in another mode.
  virtual void forget_recorded() = 0;

  /// Allocates host memory for the active neurons that one step reports. Calls of ffn_neurons(),
  /// down_neurons() and HybridFfn::run() report active neurons if NeuronCounts::found is set. n_calls:
  /// maximum number of reporting calls in a step; max_tokens: maximum number of tokens of each. Must be
  /// called between steps, before the first reporting call. If it throws std::bad_alloc, no call may report
  /// neurons.
  virtual void reserve_found(int n_calls, int max_tokens, int64_t n_neurons) = 0;
  /// Writes to `to` the neurons that were active in call number `call` of the step. Only calls in which
  /// NeuronCounts::found is set are numbered. REQUIRES: finish() has returned.
  virtual void found(int call, const ActiveNeurons& to) = 0;
};

}  // namespace hearth
