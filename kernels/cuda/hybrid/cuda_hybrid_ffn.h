// The hybrid FFN of a CUDA device and the CPU. It splits the wanted neurons between the two, lets both
// compute at the same time, and merges their sums.
//
// device_share.h computes the hot neurons on the device, and cold_share.h the cold neurons on the CPU. In
// long steps, the cold neurons are copied to the device instead (streamed_share.h). The host waits once per
// layer, for the hand-over, but never for the device's part. Owned by CudaDevice; engine thread.
#pragma once

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/hybrid/cold_share.h"
#include "kernels/cuda/hybrid/device_work.h"
#include "kernels/cuda/hybrid/prefetch_link.h"
#include "kernels/cuda/neurons/device_share.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/host_pins.h"
#include "kernels/cuda/streaming/streamed_share.h"
#include "kernels/hybrid_ffn.h"

namespace hearth::cuda {

class CudaHybridFfn final : public HybridFfn {
 public:
  /// `work`, `cpu` and the objects that `options` points to must outlive this object.
  CudaHybridFfn(DeviceWork& work, CpuBackend& cpu, const DeviceOptions& options)
      : work_(work),
        cpu_(cpu),
        cold_share_(options.cold_neurons != nullptr ? *options.cold_neurons : cpu),
        streamed_share_(cpu, options.stream_from_tokens) {}

  /// Allocates pinned memory. Call it once at load, after DeviceWork::reserve().
  void reserve(const StepBounds& bounds);
  /// Waits for all copies in flight, even after an error. Afterward host memory may be freed.
  void drain() noexcept { streamed_share_.drain(); }

  bool pin(const std::byte* host, size_t bytes) override { return pins_.add(host, bytes); }
  HostPins& pins() { return pins_; }
  StreamedShare& streamed() { return streamed_share_; }
  const StreamedShare& streamed() const { return streamed_share_; }
  void set_prefetcher(RowPrefetcher* prefetcher) override;
  void run(const HybridLayer& layer, const HybridCall& call, NeuronCounts& counts) override;

 private:
  DeviceNeuronSet hot(const DeviceNeuronSet& wanted) const;
  void hand_over(const HybridLayer& layer, const HybridCall& call, const DeviceNeuronSet& wanted);
  void compute_on_device(const HybridLayer& layer, const HybridCall& call, const NeuronInput& input,
                         const DeviceNeuronSet& wanted, const NeuronNotes& notes);
  void propose(const HybridLayer& layer, const Proposal& proposal);
  void compute_on_cpu(const HybridLayer& layer, NeuronCounts& counts);
  void stream_cold(const HybridLayer& layer, const HybridCall& call, const NeuronInput& input,
                   const DeviceNeuronSet& wanted, const NeuronNotes& notes);
  void end_segment(const HybridLayer& layer);

  DeviceWork& work_;
  CpuBackend& cpu_;
  HostPins pins_;
  ColdShare cold_share_;
  PrefetchLink prefetch_;
  StreamedShare streamed_share_;  // destroyed before pins_, because its copies read the pinned memory
};

}  // namespace hearth::cuda
