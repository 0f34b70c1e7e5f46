// The state that all parts of the CUDA device share: the stream, the arena with all device memory, the sets
// of neurons, the recorder through which all work of a step is enqueued, and the counts made on the device.
//
// Owned by CudaDevice (cuda_backend.cpp), and used by CudaBackend, CudaHybridFfn and CudaHybridExperts.
// Engine thread. All work of a step goes through enqueue(), so that steps can be recorded and played back
// (step_recorder.h). Enqueued work must hold copies of the values that it needs.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/base/trace.h"
#include "kernels/compute_device.h"
#include "kernels/cuda/hybrid/noted_neurons.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/arena.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/device_options.h"
#include "kernels/cuda/runtime/device_trace.h"
#include "kernels/cuda/runtime/quantized_inputs.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/cuda/runtime/step_recorder.h"

namespace hearth::cuda {

class DeviceWork {
 public:
  explicit DeviceWork(const DeviceOptions& options);

  cudaStream_t stream() const { return stream_; }
  void wait_for_stream() const { stream_.wait(); }
  Arena& arena() { return arena_; }
  const Scratch& scratch() const { return scratch_; }
  StepRecorder& recorder() { return recorder_; }
  Trace* trace() const { return trace_; }  // null: no trace

  /// Allocates scratch from the arena. Call it once at load.
  void reserve(const StepBounds& bounds);

  void begin_step(const StepShape& shape);
  void forget_recorded();

  // ---- the step's work -----------------------------------------------------------------------------------

  template <class Work>
  void enqueue(Work&& work) {
    recorder_.enqueue(std::forward<Work>(work));
  }
  /// With a trace, ends a span of this name (a literal) that covers the work enqueued since the last mark.
  /// Graphs do not contain events, so this also ends the current segment of the recording. Does nothing
  /// without a trace.
  void mark(const char* name, int layer);
  /// Begins a new span with the work that is enqueued next. Call it after the host has computed its part of a
  /// step.
  void begin_span();
  /// Waits for all enqueued work. `last` is the name of the last span for the trace.
  void wait_for_all(const char* last);
  /// Like wait_for_all(), but also adds the device's counts since the last finish() to the NeuronCounts that
  /// begin_sums() got, and to the ExpertCounts that count_experts() got.
  void finish();

  // ---- neurons -------------------------------------------------------------------------------------------

  /// See Backend::make_set().
  NeuronSetId make_set();
  /// Returns the set with its latest contents.
  const DeviceNeuronSet& set(NeuronSetId id) const { return sets_.at(id.index()); }
  /// Sets the size of a set, and returns it to be filled.
  const DeviceNeuronSet& begin_set(NeuronSetId id, int n_tokens, int64_t n_neurons);

  /// Begins a sum over the neurons of a set in scratch().sums, which are zero between sums. The next finish()
  /// adds the device's counts to `counts`. Returns the memory where kernels note the neurons that they find
  /// active.
  NeuronNotes begin_sums(const DeviceNeuronSet& set, NeuronCounts& counts);
  /// The next finish() adds what kernels have counted in scratch().counts for experts to `counts`.
  void count_experts(ExpertCounts& counts);
  /// Adds float(the sums + the CPU's sums) and the bias of `down` to out [n_tokens, n_cols]. of_cpu and the
  /// bias may be missing.
  void end_sums(const DownColumns& down, int n_tokens, float* out, const CpuSums& of_cpu = {});
  // ---- quantized activations -----------------------------------------------------------------------------

  /// Returns x [n_tokens, n_cols] in quantized form, and enqueues the quantization if necessary. Only work
  /// that is enqueued before the next call may use the result. Returns null arrays if n_cols is not a
  /// multiple of 32.
  QuantizedActivations quantized(const float* x, int n_tokens, int64_t n_cols);
  /// Returns arrays for n quantized activations. n is at most max_tokens * max_cols of StepBounds. Only work
  /// that is enqueued before the next call may use them.
  QuantizedActivations quantized_room(int64_t n) { return quantized_inputs_.room(n); }
  /// Call this for an operation that writes n_rows rows of n_cols floats to x, if products will probably read
  /// them. The operation must also write the floats in quantized form to the returned arrays. In large steps,
  /// these arrays are null, and the operation must not quantize.
  QuantizedActivations writes_input(const float* x, int64_t n_rows, int64_t n_cols);
  /// Call this for every other operation that writes n floats to x.
  void writes(const float* x, int64_t n) { quantized_inputs_.written(x, n); }

  NotedNeurons& noted() { return noted_; }
  /// See ComputeDevice::reserve_found().
  void reserve_found(int n_calls, int max_tokens, int64_t n_neurons);

 private:
  Stream stream_{/*first=*/true};
  Arena arena_;
  Scratch scratch_;
  StepRecorder recorder_;
  Trace* trace_;
  std::optional<DeviceTrace> device_trace_;  // if there is a trace
  std::vector<DeviceNeuronSet> sets_;        // the sets made so far; their memory is in scratch
  PinnedArray<DeviceCounts> host_counts_;
  // receive the device's counts; null: nothing was counted since finish()
  NeuronCounts* counts_of_ = nullptr;
  ExpertCounts* counts_of_experts_ = nullptr;
  NotedNeurons noted_;
  QuantizedInputs quantized_inputs_;
};

}  // namespace hearth::cuda
