// See the header; run() shows the order of a layer.
#include "kernels/cuda/sharing/cuda_hybrid_ffn.h"

#include <bit>
#include <cstdint>
#include <span>

#include "kernels/cuda/sharing/device_share.h"
#include "kernels/trace.h"

namespace hearth::cuda {

void CudaHybridFfn::reserve(const StepBounds& bounds) {
  cold_share_.reserve(bounds, work_.stream(), work_.scratch());
  streamed_share_.reserve(bounds);
  row_updates_.reserve();
}

void CudaHybridFfn::set_traffic(NeuronTraffic* traffic) {
  traffic_ = traffic;
  row_updates_.set_traffic(traffic);
  work_.forget_recorded();
}

void CudaHybridFfn::run(const HybridLayer& layer, const HybridCall& call, NeuronCounts& counts) {
  // 1. Wanted neurons: the set that the engine selected. The sums over its neurons begin at zero.
  const DeviceNeuronSet wanted = work_.set(call.wanted);
  const int64_t n_cols = layer.device.down.n_cols;
  const NeuronNotes notes = work_.begin_sums(wanted, n_cols, counts);
  if (call.least_contribution) {
    work_.recorder().note(
        std::bit_cast<uint32_t>(*call.least_contribution));  // a new one needs forget_recorded()
  }
  work_.quantize(call.x, call.n_tokens, layer.device.gate.n_cols);

  if (streamed_share_.takes(layer, call.n_tokens, call.gates != nullptr)) {
    // 2 to 4. In a long step the cold neurons are copied to the device, and the CPU computes none. The host
    // waits for nothing, so the cache does not change, and the neuron traffic is not told of the call.
    part(layer, wanted);
    stream_cold(layer, call, notes);
  } else {
    // 2. Residency: apply the cache's changes, then split the set by which neurons have a device row. What
    // the CPU needs for the cold part goes to host memory.
    cpu_.expect_work();
    row_updates_.apply(layer, work_.recorder());
    part(layer, wanted);
    hand_over(layer, call, wanted);
    // 3. Both compute at the same time: the device gets its part before the CPU begins with the other.
    compute_on_device(layer, call, notes);
    compute_on_cpu(layer, counts);
    // 4. The CPU's sums are added to the device's.
    merge(call.n_tokens, n_cols);
  }

  // 5. The sums, rounded to floats, are added to the residual stream.
  work_.end_sums(layer.device.down, call.n_tokens, call.out);
}

/// Splits the set into scratch.hot, scratch.cold_wanted and scratch.any.
void CudaHybridFfn::part(const HybridLayer& layer, const DeviceNeuronSet& wanted) {
  const Scratch& scratch = work_.scratch();
  DeviceNeuronSet hot = scratch.hot;
  hot.resize(wanted.n_tokens, wanted.n_neurons);
  work_.enqueue([=, &scratch, resident = layer.resident, stream = work_.stream()] {
    split_set(wanted, resident, hot, scratch.cold_wanted, scratch.any, scratch.select, stream);
  });
}

/// Enqueues the hand-over of the cold part and of the CPU's input to host memory.
void CudaHybridFfn::hand_over(const HybridLayer& layer, const HybridCall& call,
                              const DeviceNeuronSet& wanted) {
  const Scratch& scratch = work_.scratch();
  const cudaStream_t stream = work_.stream();
  if (call.wanted_next) {
    work_.enqueue(
        [=, next = work_.set(*call.wanted_next),
         any_next = scratch.any + 2 * ((wanted.n_neurons + 63) / 64)] { any_token(next, any_next, stream); });
  }
  const HandOver given = cold_share_.begin({.x = call.x,
                                            .gates = call.gates,
                                            .n_tokens = wanted.n_tokens,
                                            .n_neurons = wanted.n_neurons,
                                            .n_cols = layer.device.down.n_cols,
                                            .proposes = call.wanted_next.has_value(),
                                            .least_contribution = call.least_contribution},
                                           scratch);
  work_.enqueue([=] { cuda::hand_over(given, stream); });
  if (work_.trace() == nullptr) return;
  end_segment(layer);
  work_.mark("attention, active neurons", layer.layer);
}

/// Enqueues the hot part and what else there is to do, and launches what was recorded up to here.
void CudaHybridFfn::compute_on_device(const HybridLayer& layer, const HybridCall& call,
                                      const NeuronNotes& notes) {
  const Scratch& scratch = work_.scratch();
  DeviceNeuronSet hot = scratch.hot;
  hot.resize(call.n_tokens, layer.host.down.n_neurons);
  work_.enqueue([=, &scratch, rows = rows_on_device(layer, call), x = call.x, gates = call.gates,
                 stream = work_.stream()] { add_neurons(rows, x, hot, gates, scratch, stream, notes); });
  if (call.meanwhile) call.meanwhile();
  end_segment(layer);
  work_.mark("FFN, hot neurons", layer.layer);
  if (traffic_ != nullptr) traffic_->enqueued(layer.layer, work_.stream());
}

/// Waits for the hand-over and computes the cold part while the device computes the hot one.
void CudaHybridFfn::compute_on_cpu(const HybridLayer& layer, NeuronCounts& counts) {
  Trace* const trace = work_.trace();
  {
    const TraceBlock waiting(trace, "engine", "waiting for the device", layer.layer);
    cold_share_.wait(work_.stream());
  }
  if (traffic_ != nullptr) {
    traffic_->wanted(layer.layer, cold_share_.any(), cold_share_.any_cold(), cold_share_.proposed());
  }
  {
    const TraceBlock computing(trace, "CPU", "FFN, cold neurons", layer.layer);
    const double seconds = cold_share_.compute(layer.host, counts);
    if (traffic_ != nullptr) traffic_->computed(layer.layer, seconds);
    if (counts.found != nullptr && !cold_share_.set().ids().empty()) {
      work_.noted().add(cold_share_.set(), *counts.found);
    }
  }
  work_.begin_span();
}

/// Computes both parts on the device: the hot one, then the cold one piece by piece. The copies are not part
/// of recorded graphs.
void CudaHybridFfn::stream_cold(const HybridLayer& layer, const HybridCall& call, const NeuronNotes& notes) {
  const Scratch& scratch = work_.scratch();
  DeviceNeuronSet hot = scratch.hot;
  hot.resize(call.n_tokens, layer.host.down.n_neurons);
  work_.mark("attention, active neurons", layer.layer);
  work_.enqueue([=, &scratch, rows = rows_on_device(layer, call), x = call.x, gates = call.gates,
                 stream = work_.stream()] { add_neurons(rows, x, hot, gates, scratch, stream, notes); });
  work_.mark("FFN, hot neurons", layer.layer);
  work_.recorder().end_segment();
  streamed_share_.add(layer, call, scratch, work_.stream(), notes);
  work_.mark("FFN, streamed neurons", layer.layer);
}

void CudaHybridFfn::merge(int n_tokens, int64_t n_cols) {
  const Scratch& scratch = work_.scratch();
  work_.enqueue(
      [=, &scratch, cold = cold_share_.sums(), has_cold = cold_share_.has_sums(), stream = work_.stream()] {
        merge_sums(cold, n_tokens, n_cols, scratch.sums, stream, has_cold);
      });
}

/// Launches what was recorded, after fetching the latest changes of the cache.
void CudaHybridFfn::end_segment(const HybridLayer& layer) {
  work_.recorder().end_segment([&] { row_updates_.before_launch(layer); });
}

}  // namespace hearth::cuda
