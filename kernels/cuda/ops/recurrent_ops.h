// The CUDA backend's operations of recurrent layers. kernels/recurrent.h describes the operations, the layout
// of their memory, and the order of all arithmetic.
//
// The rules of ops.h for memory, streams, errors and arithmetic apply, but only the alignment of a float is
// required. The runs of a call are in device memory, so that a recorded step can be played back with other
// runs: the host spans of the calls' structs (CausalConv::runs, GatedDelta::runs) are not read.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/recurrent.h"

namespace hearth::cuda {

/// A RecurrentRun in device memory.
struct DeviceRun {
  int32_t slot = -1;  // -1: the entry is unused
  int32_t first_token = 0;
  int32_t n_tokens = 0;
  int32_t n_replayed = 0;
  int32_t n_uncertain = 0;
  int32_t fresh = 0;  // 0 or 1
};
inline DeviceRun device_run(const RecurrentRun& run) {
  return {run.slot, run.first_token, run.n_tokens, run.n_replayed, run.n_uncertain, run.fresh ? 1 : 0};
}

/// The runs of a call.
struct DeviceRuns {
  const DeviceRun* runs = nullptr;  // [n]
  int n = 0;                        // number of entries, including unused ones
  int most_tokens = 0;              // no run has more tokens
};

/// The copies of a call, as an argument of a kernel.
struct DeviceCopies {
  int n = 0;
  int32_t after_token[RecurrentCopy::kMost] = {};
  float* out[RecurrentCopy::kMost] = {};
};
/// Throws std::logic_error if there are more copies than RecurrentCopy::kMost.
DeviceCopies device_copies(std::span<const RecurrentCopy> copies);

/// See RecurrentOps::causal_conv().
void causal_conv(const CausalConv& call, const DeviceRuns& runs, cudaStream_t stream);

/// See RecurrentOps::delta_gates().
void delta_gates(const DeltaGates& call, cudaStream_t stream);

/// The maximum number of rows of a state in gated_delta() and selective_scan(). The state must fit the shared
/// memory of a thread block.
inline constexpr int kMaxDeltaHeadDim = 1024;

/// Counters of these operations for each token of a step, in device memory. They are 0 between calls.
inline constexpr int kDeltaCounters = 32;

/// See RecurrentOps::gated_delta(). counters: [rows of the step's arrays, kDeltaCounters], used only by runs
/// with drafts. Throws std::invalid_argument if the state has more than kMaxDeltaHeadDim rows.
void gated_delta(const GatedDelta& call, const DeviceRuns& runs, uint32_t* counters, cudaStream_t stream);

/// See RecurrentOps::selective_scan(). Otherwise as gated_delta().
void selective_scan(const SelectiveScan& call, const DeviceRuns& runs, uint32_t* counters,
                    cudaStream_t stream);

}  // namespace hearth::cuda
