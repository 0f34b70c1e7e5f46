// Implements DeviceWork.
#include "kernels/cuda/hybrid/device_work.h"

#include <cassert>
#include <stdexcept>
#include <string>

#include "kernels/cpu/isa/activation_row.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {

DeviceWork::DeviceWork(const DeviceOptions& options)
    : arena_(options.budget_bytes), recorder_(stream_, options.graphs), trace_(options.trace) {
  if (trace_ != nullptr) device_trace_.emplace(*trace_, stream_);
}

void DeviceWork::reserve(const StepBounds& bounds) {
  scratch_ = Scratch(arena_, bounds);
  quantized_inputs_.reserve(scratch_);
  host_counts_ = PinnedArray<DeviceCounts>(1);
  check(cudaMemsetAsync(scratch_.counts, 0, sizeof(DeviceCounts), stream_), "clearing counts");
  check(cudaMemsetAsync(scratch_.attention, 0, scratch_.attention_counters, stream_), "clearing counts");
  check(cudaMemsetAsync(scratch_.sums.sums, 0, scratch_.n_sums * sizeof(int64_t), stream_),
        "clearing sums over neurons");
  check(cudaMemsetAsync(scratch_.sums.poison, 0, static_cast<size_t>(bounds.max_tokens) * sizeof(int32_t),
                        stream_),
        "clearing sums over neurons");
  if (scratch_.n_delta_counters > 0) {
    check(cudaMemsetAsync(scratch_.delta_counters, 0, scratch_.n_delta_counters * sizeof(uint32_t), stream_),
          "clearing the counters of recurrent layers");
  }
  check(cudaMemsetAsync(scratch_.note_state, 0, Scratch::kNoteWords * sizeof(uint32_t), stream_),
        "clearing the count of notes");
}

void DeviceWork::begin_step(const StepShape& shape) {
  recorder_.begin_step(shape);
  noted_.begin_step();
  quantized_inputs_.forget();
  begin_span();
}

void DeviceWork::forget_recorded() {
  stream_.wait();
  recorder_.forget();
}

void DeviceWork::mark(const char* name, int layer) {
  if (!device_trace_) return;
  recorder_.end_segment();
  device_trace_->end(name, layer);
}

void DeviceWork::begin_span() {
  if (device_trace_) device_trace_->begin();
}

void DeviceWork::wait_for_all(const char* last) {
  mark(last, -1);
  recorder_.end_segment();
  {
    const TraceBlock waiting(trace_, "engine", "waiting for the device");
    stream_.wait();
  }
  quantized_inputs_.forget();  // the host may now change any array
  if (device_trace_) {
    device_trace_->collect();
    device_trace_->begin();
  }
}

void DeviceWork::finish() {
  const bool counted = counts_of_ != nullptr || counts_of_experts_ != nullptr;
  if (counted) {
    enqueue([this] {
      check(cudaMemcpyAsync(host_counts_.data(), scratch_.counts, sizeof(DeviceCounts),
                            cudaMemcpyDeviceToHost, stream_),
            "reading counts");
      check(cudaMemsetAsync(scratch_.counts, 0, sizeof(DeviceCounts), stream_), "clearing counts");
    });
  }
  wait_for_all("the rest of the step");
  if (!counted) return;
  if (counts_of_ != nullptr) host_counts_.data()->add_to(*counts_of_);
  if (counts_of_experts_ != nullptr) host_counts_.data()->add_to(*counts_of_experts_);
  counts_of_ = nullptr;
  counts_of_experts_ = nullptr;
}

NeuronSetId DeviceWork::make_set() {
  const NeuronSetId id = next_set(sets_.size(), scratch_.sets.size());
  sets_.push_back(scratch_.sets[id.index()]);
  return id;
}

const DeviceNeuronSet& DeviceWork::begin_set(NeuronSetId id, int n_tokens, int64_t n_neurons) {
  DeviceNeuronSet& set = sets_.at(id.index());
  set.resize(n_tokens, n_neurons);
  return set;
}

NeuronNotes DeviceWork::begin_sums(const DeviceNeuronSet& set, NeuronCounts& counts) {
  assert(counts_of_ == nullptr || counts_of_ == &counts);
  counts_of_ = &counts;
  return counts.found == nullptr ? NeuronNotes() : noted_.begin(set.n_tokens, set.n_neurons);
}

void DeviceWork::count_experts(ExpertCounts& counts) {
  assert(counts_of_experts_ == nullptr || counts_of_experts_ == &counts);
  counts_of_experts_ = &counts;
}

void DeviceWork::end_sums(const DownColumns& down, int n_tokens, float* out, const CpuSums& of_cpu) {
  writes(out, n_tokens * down.n_cols);
  enqueue([=, this, bias = down.bias, n_cols = down.n_cols] {
    cuda::end_sums(scratch_.sums, of_cpu, bias, n_tokens, n_cols, out, stream_);
  });
}

QuantizedActivations DeviceWork::quantized(const float* x, int n_tokens, int64_t n_cols) {
  const int64_t n = n_tokens * n_cols;
  if (n == 0 || n_cols % kActivationSpan != 0) return {};  // only float weights have such rows
  const QuantizedActivations known = quantized_inputs_.find(x, n);
  if (known.high != nullptr) return known;
  const QuantizedActivations to = quantized_inputs_.add(x, n);
  enqueue([=, this] { quantize(x, n_tokens, n_cols, to, stream_); });
  return to;
}

QuantizedActivations DeviceWork::writes_input(const float* x, int64_t n_rows, int64_t n_cols) {
  const int64_t n = n_rows * n_cols;
  writes(x, n);
  if (n == 0 || n_cols % kActivationSpan != 0 || !quantized_inputs_.keeps(n)) return {};
  return quantized_inputs_.add(x, n);
}

void DeviceWork::reserve_found(int n_calls, int max_tokens, int64_t n_neurons) {
  forget_recorded();  // recorded steps would note neurons in the old memory
  noted_.reserve(n_calls, max_tokens, n_neurons, scratch_.note_state);
}

}  // namespace hearth::cuda
