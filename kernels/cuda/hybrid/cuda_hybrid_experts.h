// The experts of a layer on a CUDA device and the CPU: see kernels/hybrid_experts.h.
//
// The device work of a layer belongs to two segments of the step's recording. The first contains the choice
// of experts, the hand-over, and the rows of resident experts; the second begins with the sum. The host waits
// once per layer, for the hand-over. A layer without a hand-over does not end the segment. The kernel that
// computes the sum reads the CPU's rows over PCIe. Owned by CudaDevice; engine thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cpu/host_experts.h"
#include "kernels/cuda/hybrid/activation_exchange.h"
#include "kernels/cuda/hybrid/device_work.h"
#include "kernels/cuda/hybrid/expert_changes.h"
#include "kernels/cuda/hybrid/expert_division.h"
#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/streaming/streamed_share.h"
#include "kernels/hybrid_experts.h"

namespace hearth::cuda {

class CudaHybridExperts final : public HybridExperts {
 public:
  /// All arguments must outlive this object. host: computes missing experts. streamed: copies missing experts
  /// to the device in long steps.
  CudaHybridExperts(DeviceWork& work, ActivationExchange& exchange, HostExperts& host,
                    StreamedShare& streamed)
      : work_(work),
        exchange_(exchange),
        host_(host),
        streamed_(streamed),
        changes_(work, streamed),
        division_(streamed.from_tokens()) {}

  /// Allocates pinned memory. Call it once at load, after DeviceWork::reserve(), if the device holds experts.
  void reserve(const StepBounds& bounds);

  void begin(const HybridExpertLayer& layer, const HybridExpertCall& call) override;
  ExpertChoice wait() override;
  void end(const GatedSharedExpert& shared, ExpertCounts& counts) override;

  int most_changes(const Expert& one) const override { return changes_.most(one); }
  void begin_change(const SlotChange& change) override { changes_.begin(change); }
  int changes_arrived() override { return changes_.n_arrived(); }
  void end_changes(int n) override { changes_.end(n); }
  double change_seconds() const override { return changes_.seconds(); }

 private:
  DeviceChoice choice() const;
  /// The chosen experts and their slots, which the hand-over has written to host memory.
  ExpertChoice arrived_choice() const;
  std::span<const int32_t> arrived_slots() const;
  ExpertGroups groups() const;
  int64_t d_model() const { return layer_.host.front().down.n_rows; }
  int64_t d_expert() const { return layer_.host.front().up.n_rows; }
  bool streams() const;
  void hand_over_choice();
  void divide_missing();
  void begin_streamed(const QuantizedActivations& x);
  bool weighs_input() const { return call_.weighted_x != nullptr; }
  /// The rows that experts read.
  const float* input() const { return weighs_input() ? call_.weighted_x : call_.x; }
  QuantizedActivations quantized_input();
  QuantizedActivations routed_input(const QuantizedActivations& x);
  /// One stage of a layer: the products with gate and up, or the products with down.
  struct Stage {
    std::array<ExpertProduct, 2> products;  // by slot; the second may be empty
    std::array<Matrix Expert::*, 2> parts;  // the same matrices in host memory
    ExpertInputs inputs;
    // The stage is add_active_rows() instead of the products.
    bool skips_zeros = false;

    size_t n_parts() const { return parts[1] == nullptr ? 1 : 2; }
  };
  Stage input_stage(const QuantizedActivations& x) const;
  Stage down_stage() const;
  bool skips_zeros() const { return static_cast<bool>(layer_.device->down_columns); }
  ActiveOfRows active_of_rows() const;
  QuantizedActivations quantized_hidden() const;
  void multiply(const Stage& stage, const ExpertGroups& groups);
  template <class Copies, class Compute>
  void for_each_piece(size_t bytes_of_expert, int64_t n_rows, Copies&& copies_of, ExpertGroups& groups,
                      Compute&& compute);
  void multiply_copied(const Stage& stage, ExpertGroups groups);
  void add_copied_rows(ExpertGroups groups);
  std::span<const Strip> strips_of(const Stage& stage, std::span<const int32_t> experts);
  void activate(const ExpertGroups& groups);
  void count_resident(ExpertCounts& counts);
  void count_all(int64_t n_read, ExpertCounts& counts) const;

  DeviceWork& work_;
  ActivationExchange& exchange_;
  HostExperts& host_;
  StreamedShare& streamed_;
  ExpertChanges changes_;
  ExpertDivision division_;

  // The current layer:
  HybridExpertLayer layer_;
  HybridExpertCall call_;
  bool streamed_now_ = false;  // some of the missing experts are copied to the device
  bool on_host_ = false;       // the CPU computes missing experts
  bool hands_over_ = false;
  Backend::HandedOver given_;  // the choice, and x
  // In a layer that streams: the missing experts that are copied, and those that the CPU computes. Ascending.
  std::vector<int32_t> copied_, on_cpu_;
  // The time at which the device reaches the last piece of a layer that streams. If the CPU has finished
  // before that, the copies of the next layer are enqueued while the device still has work.
  TimeMark last_piece_;
  std::vector<Strip> strips_;  // scratch of multiply_copied()

  PinnedArray<float> rows_;  // [max_expert_tokens, n_used, d_model] rows that the CPU computes, by pair
  std::vector<uint8_t> slot_is_read_;  // [n_slots] scratch of count_resident()
};

}  // namespace hearth::cuda
