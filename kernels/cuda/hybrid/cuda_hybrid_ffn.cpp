// Implements CudaHybridFfn. run() lists the stages of a layer.
#include "kernels/cuda/hybrid/cuda_hybrid_ffn.h"

#include <bit>
#include <cstdint>
#include <span>

#include "kernels/base/trace.h"
#include "kernels/cuda/neurons/device_share.h"

namespace hearth::cuda {

void CudaHybridFfn::reserve(const StepBounds& bounds) {
  cold_share_.reserve(bounds, work_.stream(), work_.scratch());
  prefetch_.reserve(bounds, work_.stream(), work_.scratch());
  streamed_share_.reserve(bounds);
}

void CudaHybridFfn::set_prefetcher(RowPrefetcher* prefetcher) {
  prefetch_.set_prefetcher(prefetcher);
  work_.forget_recorded();
}

void CudaHybridFfn::run(const HybridLayer& layer, const HybridCall& call, NeuronCounts& counts) {
  // 1. Get the wanted neurons, which the engine selected.
  const DeviceNeuronSet wanted = work_.set(call.wanted);
  const NeuronNotes notes = work_.begin_sums(wanted, counts);
  if (call.least_contribution) {
    work_.recorder().note(
        std::bit_cast<uint32_t>(*call.least_contribution));  // a new value requires forget_recorded()
  }
  CpuSums of_cpu;
  const NeuronInput input{call.x, work_.quantized(call.x, call.n_tokens, layer.device.gate.n_cols)};

  if (streamed_share_.takes(layer, call.n_tokens, call.gates != nullptr)) {
    // 2 and 3. In a long step, the cold neurons are copied to the device and the CPU computes none. The host
    // does not wait for the device, so the neuron cache is not updated and the call is not reported to the
    // prefetcher.
    stream_cold(layer, call, input, wanted, notes);
  } else {
    // 2. Apply the changes of the neuron cache. Then split the set into neurons with a device row and neurons
    // without one, and copy the CPU's inputs to host memory.
    cpu_.expect_work();
    hand_over(layer, call, wanted);
    // 3. Compute both parts at the same time: enqueue the device's part, then compute the CPU's part.
    compute_on_device(layer, call, input, wanted, notes);
    compute_on_cpu(layer, counts);
    of_cpu = cold_share_.sums();
  }

  // 4. Merge the sums, round them to floats and add them to the residual stream.
  work_.end_sums(layer.device.down, call.n_tokens, call.out, of_cpu);
}

/// Returns scratch.hot, resized like `wanted`, for the neurons of the set that have a device row.
DeviceNeuronSet CudaHybridFfn::hot(const DeviceNeuronSet& wanted) const {
  DeviceNeuronSet hot = work_.scratch().hot;
  hot.resize(wanted.n_tokens, wanted.n_neurons);
  return hot;
}

/// Enqueues the changes of the neuron cache, the split of the set, and the hand-over of the cold neurons and
/// of their inputs to the CPU.
void CudaHybridFfn::hand_over(const HybridLayer& layer, const HybridCall& call,
                              const DeviceNeuronSet& wanted) {
  const HandOver rest = cold_share_.begin({.x = call.x,
                                           .gates = call.gates,
                                           .n_tokens = wanted.n_tokens,
                                           .n_neurons = wanted.n_neurons,
                                           .n_cols = layer.device.down.n_cols,
                                           .least_contribution = call.least_contribution},
                                          work_.scratch());
  const SplitSet split{.all = wanted,
                       .resident = layer.resident,
                       .hot = hot(wanted),
                       .cold = cold_share_.cold_bits(),
                       .any = cold_share_.any_bits(),
                       .cold_on_host = true};
  work_.enqueue([=, changes = prefetch_.changes(layer, work_.recorder()), device_row = layer.device_row,
                 stream = work_.stream()] { part_and_hand_over(split, changes, device_row, rest, stream); });
  if (work_.trace() == nullptr) return;
  end_segment(layer);
  work_.mark("attention, active neurons", layer.layer);
}

/// Enqueues the work for the hot neurons and the proposal, and launches everything recorded so far.
void CudaHybridFfn::compute_on_device(const HybridLayer& layer, const HybridCall& call,
                                      const NeuronInput& input, const DeviceNeuronSet& wanted,
                                      const NeuronNotes& notes) {
  const Scratch& scratch = work_.scratch();
  work_.enqueue([=, &scratch, hot = hot(wanted), rows = rows_on_device(layer, call), gates = call.gates,
                 stream = work_.stream()] { add_neurons(rows, input, hot, gates, scratch, stream, notes); });
  if (call.proposal) propose(layer, *call.proposal);
  end_segment(layer);
  work_.mark("FFN, hot neurons", layer.layer);
  prefetch_.enqueued(layer, work_.stream());
}

/// Enqueues the work that predicts which neurons a later layer will want, and hands the prediction over to
/// the host.
void CudaHybridFfn::propose(const HybridLayer& layer, const Proposal& proposal) {
  proposal.fill();
  const DeviceNeuronSet set = work_.set(proposal.set);
  const HandOver given =
      prefetch_.begin_proposal(layer, proposal.layer, set.any_bits, set.n_neurons, work_.scratch());
  work_.enqueue([=, stream = work_.stream()] { cuda::hand_over(given, stream); });
}

/// Waits for the hand-over, then computes the cold neurons while the device computes the hot neurons.
void CudaHybridFfn::compute_on_cpu(const HybridLayer& layer, NeuronCounts& counts) {
  Trace* const trace = work_.trace();
  prefetch_.deliver_proposal(layer, work_.stream());
  {
    const TraceBlock waiting(trace, "engine", "waiting for the device", layer.layer);
    cold_share_.wait(work_.stream());
  }
  prefetch_.wanted(layer, cold_share_.any(), cold_share_.any_cold());
  {
    const TraceBlock computing(trace, "CPU", "FFN, cold neurons", layer.layer);
    const double seconds = cold_share_.compute(layer.host, counts);
    prefetch_.computed(layer, seconds);
    if (counts.found != nullptr && !cold_share_.set().ids().empty()) {
      work_.noted().add(cold_share_.set(), *counts.found);
    }
  }
  work_.begin_span();
}

/// Computes all neurons on the device: first the hot neurons, then the cold neurons piece by piece. The
/// copies are not part of recorded graphs.
void CudaHybridFfn::stream_cold(const HybridLayer& layer, const HybridCall& call, const NeuronInput& input,
                                const DeviceNeuronSet& wanted, const NeuronNotes& notes) {
  const Scratch& scratch = work_.scratch();
  const DeviceNeuronSet hot = this->hot(wanted);
  const SplitSet split{
      .all = wanted, .resident = layer.resident, .hot = hot, .cold = scratch.cold_wanted, .any = scratch.any};
  work_.enqueue([=, stream = work_.stream()] { split_set(split, stream); });
  work_.mark("attention, active neurons", layer.layer);
  work_.enqueue([=, &scratch, rows = rows_on_device(layer, call), gates = call.gates,
                 stream = work_.stream()] { add_neurons(rows, input, hot, gates, scratch, stream, notes); });
  work_.mark("FFN, hot neurons", layer.layer);
  work_.recorder().end_segment();
  streamed_share_.add(layer, call, input, scratch, work_.stream(), notes);
  work_.mark("FFN, streamed neurons", layer.layer);
}

/// Fetches the latest changes of the neuron cache, then launches the recorded work.
void CudaHybridFfn::end_segment(const HybridLayer& layer) {
  work_.recorder().end_segment([&] { prefetch_.before_launch(layer); });
}

}  // namespace hearth::cuda
