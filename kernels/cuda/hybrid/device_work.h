// The state that all parts of the CUDA device share: one stream, one allocation of memory, the sets of
// neurons, the recorder that all work of a step goes through, and the counts made on the device.
//
// Owned by CudaDevice (cuda_backend.cpp), shared by CudaBackend and CudaHybridFfn. Engine thread. enqueue()
// puts all work of a step into the stream, so that steps can be recorded and played back (step_recorder.h).
// Enqueued work holds copies of the values it needs.
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

  /// Allocates scratch from the arena. At load, once.
  void reserve(const StepBounds& bounds);

  void begin_step(const StepShape& shape);
  void forget_recorded();

  // ---- the step's work -----------------------------------------------------------------------------------

  template <class Work>
  void enqueue(Work&& work) {
    recorder_.enqueue(std::forward<Work>(work));
  }
  /// If there is a trace: makes a span of this name (a literal) from the work enqueued since the last mark.
  /// Events are not put into graphs, so a segment of the recording ends here.
  void mark(const char* name, int layer);
  /// Begins a span with the work enqueued from here on. Used after the host has taken part in the step.
  void begin_span();
  /// Waits for all enqueued work; `last` names the last part of it, for the trace.
  void wait_for_all(const char* last);
  /// Like wait_for_all(), and also adds the device's counts to the NeuronCounts of the calls since the last
  /// finish().
  void finish();

  // ---- neurons -------------------------------------------------------------------------------------------

  /// See Backend::make_set().
  NeuronSetId make_set();
  /// The set as it was filled last.
  const DeviceNeuronSet& set(NeuronSetId id) const { return sets_.at(id.index()); }
  /// Begins to fill a set with this many tokens and neurons.
  const DeviceNeuronSet& begin_set(NeuronSetId id, int n_tokens, int64_t n_neurons);

  /// Begins a sum over neurons of a set in scratch().sums, which are zero between sums. The next finish()
  /// adds the device's counts to `counts`. Returns where to note single neurons.
  NeuronNotes begin_sums(const DeviceNeuronSet& set, NeuronCounts& counts);
  /// out [n_tokens, n_cols] += the sums (+ the CPU's, + the bias), rounded to floats.
  void end_sums(const DownColumns& down, int n_tokens, float* out, const CpuSums& of_cpu = {});
  // ---- quantized activations -----------------------------------------------------------------------------

  /// Returns x [n_tokens, n_cols] in quantized form, for work that is enqueued before the next call;
  /// quantizes it if necessary. Returns null arrays if n_cols is not a multiple of 32.
  QuantizedActivations quantized(const float* x, int n_tokens, int64_t n_cols);
  /// Room for n activations, at most max_tokens * max_cols of StepBounds, for work that is enqueued before
  /// the next call.
  QuantizedActivations quantized_room(int64_t n) { return quantized_inputs_.room(n); }
  /// Call this for an operation that writes n_rows of n_cols floats to x, if products will probably read
  /// them. Returns the arrays to which the operation shall also quantize them; null arrays in large steps: it
  /// shall not.
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
  std::vector<DeviceNeuronSet> sets_;        // the sets that were made; their memory is in scratch
  PinnedArray<DeviceCounts> host_counts_;
  NeuronCounts* counts_of_ = nullptr;  // where the device's counts go; null: nothing counted since finish()
  NotedNeurons noted_;
  QuantizedInputs quantized_inputs_;
};

}  // namespace hearth::cuda
