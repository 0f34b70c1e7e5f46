// A device that computes beside the CPU, as the engine sees it. It has a backend for its arithmetic and a
// hybrid FFN for the layers that it shares with the CPU. The host only enqueues the device's work, so the
// interface also lets a device record a step and play it back, and reports counts of single neurons after the
// step.
//
// kernels/cuda/cuda_backend.h makes the only implementation. Engine thread.
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
/// numbers in their arrays, so a device may record the work of one step and play it back for another of the
/// same shape.
struct StepShape {
  int n_tokens = 0;
  int n_logit_rows = 0;
  int n_tables = 0;       // KvPlaces::n_tables; it does not matter which of them tokens refer to
  int longest = 0;        // the largest number of keys that a token sees
  bool decoding = false;  // every token continues its own sequence, so that more steps like it will follow
  bool notes = false;     // single neurons are counted: NeuronCounts::found is set

  bool operator==(const StepShape&) const = default;
};

/// Rounds StepShape::longest up to the largest number of its class; decoding steps of the same class share a
/// recording, because `longest` grows with every token. Attention is cut into slices of 256 keys, so all
/// contexts below 256 keys are one class; above, classes are powers of two.
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

  /// Begins a step. Until the next call, all calls of the backend get the same positions, and KvPlaces with
  /// at most two arrays of block tables, because layers with a window may have their own.
  virtual void begin_step(const StepShape& shape) = 0;

  /// The library that multiplies prompt tokens, for people: "cuBLASLt 13.1.0". Empty: no library is used, and
  /// all products have the same bits as the CPU's.
  virtual std::string prompt_library() const { return {}; }
  /// If StepBounds::library_rows asked for a library and none is used: a phrase that says why.
  virtual std::string why_no_prompt_library() const { return {}; }
  /// Says which rows of the following Backend::matmul() calls are prompt tokens, ascending: these go to the
  /// library, if there is one. begin_step() resets the list to none. REQUIRES: if there are rows and a
  /// library, the step is not `decoding` (StepShape), so that it is not recorded.
  virtual void set_prompt_rows(std::span<const int32_t> /*rows*/) {}

  /// The number of prompt tokens from which on a step uses the same kernels, buffers and copies as every
  /// longer one.
  virtual int long_step() const = 0;

  /// Whether a step of n_tokens is long enough for the device to compute layers that lie in host memory. If
  /// so, the backend's matmul() takes weights in host memory and copies them piece by piece; kv_append() and
  /// attention() take a KvLayer in host memory, copy the KV blocks that the step needs to the device, and
  /// copy back those that the step wrote. All other pointers are still device memory. attention() must follow
  /// kv_append() of the same layer and places. Such calls REQUIRE: StepBounds::stream_bytes and
  /// stream_kv_bytes are not 0, and the step is not `decoding`.
  virtual bool streams_layers(int n_tokens) const = 0;
  /// Page-locks host memory that a streamed layer is copied from or to; it may be read-only memory. Returns
  /// whether the system grants it: if not, copying is slower. The memory must outlive the device. At load.
  virtual bool pin_to_copy(const std::byte* host, size_t bytes) = 0;

  /// Copies host memory to memory from backend().allocate(), and waits until it has arrived. At load.
  virtual void copy_in(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

  /// Drops the recordings of earlier steps, because the next steps use other weights or run in another mode.
  virtual void forget_recorded() = 0;

  /// Allocates host memory for the active neurons that a step's calls find: at most n_calls calls of
  /// ffn_neurons(), down_neurons() and HybridFfn::run() with NeuronCounts::found, for at most max_tokens
  /// tokens. Must be called before the first step that makes such calls, between steps. Throws
  /// std::bad_alloc; then such calls are not allowed.
  virtual void reserve_found(int n_calls, int max_tokens, int64_t n_neurons) = 0;
  /// Copies to `to` the neurons that call number `call` of the step found; only calls with
  /// NeuronCounts::found are numbered. REQUIRES: finish() has returned.
  virtual void found(int call, const ActiveNeurons& to) = 0;
};

}  // namespace hearth
