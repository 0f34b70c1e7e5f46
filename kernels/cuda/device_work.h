// What all parts of the CUDA device work with: one stream, one piece of memory, the sets of neurons, the
// recorder that all work of a step goes through, and what is counted on the device.
//
// Owned by CudaDevice (cuda_backend.cpp), shared by CudaBackend and CudaHybridFfn. Engine thread. All that goes
// to the stream in a step goes through enqueue(), so that steps can be recorded and played back
// (step_recorder.h). What is enqueued holds by value what it needs.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/compute_device.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/arena.h"
#include "kernels/cuda/runtime/device_trace.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/cuda/runtime/step_recorder.h"
#include "kernels/cuda/sharing/noted_neurons.h"
#include "kernels/trace.h"

namespace hearth::cuda {

class DeviceWork {
 public:
  explicit DeviceWork(const DeviceOptions& options);

  cudaStream_t stream() const { return stream_; }
  void wait_for_stream() const { stream_.wait(); }
  Arena& arena() { return arena_; }
  const Scratch& scratch() const { return scratch_; }
  StepRecorder& recorder() { return recorder_; }
  Trace* trace() const { return trace_; }  // null: nothing is traced

  /// Takes scratch from the arena. At load, once.
  void reserve(const StepBounds& bounds);

  void begin_step(const StepShape& shape);
  void forget_recorded();

  // ---- the step's work -----------------------------------------------------------------------------------

  template <class Work>
  void enqueue(Work&& work) {
    recorder_.enqueue(std::forward<Work>(work));
  }
  /// Where there is a trace: what was enqueued since the last mark becomes a span of this name (a literal).
  /// Events are not put into graphs, so a segment of the recording ends.
  void mark(const char* name, int layer);
  /// What is enqueued from here on begins a span: the host has taken part in between.
  void begin_span();
  /// Waits for what was enqueued; `last`: what that is, for the trace.
  void wait_for_all(const char* last);
  /// The same, and adds the device's counts to those that calls since the last finish() were given.
  void finish();

  // ---- neurons -------------------------------------------------------------------------------------------

  /// See Backend::make_set().
  NeuronSetId make_set();
  /// As it was filled last.
  const DeviceNeuronSet& set(NeuronSetId id) const { return sets_.at(id.index()); }
  /// To be filled with so many.
  const DeviceNeuronSet& begin_set(NeuronSetId id, int n_tokens, int64_t n_neurons);

  /// Begins a sum over neurons of a set: scratch().sums are zero, and what the device counts is added to
  /// `counts` by the next finish(). Returns where single neurons are to be noted.
  NeuronNotes begin_sums(const DeviceNeuronSet& set, int64_t n_cols, NeuronCounts& counts);
  /// out [n_tokens, n_cols] += the sums (+ the bias), rounded to floats.
  void end_sums(const DownColumns& down, int n_tokens, float* out);
  /// scratch().quantized = x [n_tokens, n_cols].
  void quantize(const float* x, int n_tokens, int64_t n_cols);

  NotedNeurons& noted() { return noted_; }
  /// See ComputeDevice::reserve_found().
  void reserve_found(int n_calls, int max_tokens, int64_t n_neurons);

 private:
  Stream stream_;
  Arena arena_;
  Scratch scratch_;
  StepRecorder recorder_;
  Trace* trace_;
  std::optional<DeviceTrace> device_trace_;  // where there is a trace
  std::vector<DeviceNeuronSet> sets_;        // that were made, of those in scratch
  PinnedArray<DeviceCounts> host_counts_;
  NeuronCounts* counts_of_ = nullptr;  // whose the device's counts are; null: none since finish()
  NotedNeurons noted_;
};

}  // namespace hearth::cuda
