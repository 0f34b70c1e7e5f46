// The experts of a layer whose mixture a device and the CPU share. The unit of work is a pair: a token and
// one of its experts. The device computes the pairs whose expert is resident, that is, has a slot in the
// device's memory. The CPU computes the missing pairs from host memory.
//
// One layer of one step, in this order:
//   1. choice     the device chooses each token's experts from the router's logits
//   2. hand-over  the CPU gets the choice, the slots of the chosen experts, and the experts' input (weighted,
//                 if HybridExpertCall::weighted_x is set)
//   3. rows       both compute their pairs' outputs at the same time: a row of d_model floats per pair. If
//                 the experts have down columns, both skip zeros
//   4. sum        the device adds up each token's rows, in the order of choice
// In a long step, missing experts are copied to the device, a few at a time, and the device computes their
// rows too. If the CPU is fast enough, it computes a part of the missing experts meanwhile. There is no
// hand-over if the CPU has nothing to compute, unless the caller requests the choice
// (HybridExpertCall::wants_choice).
//
// The device and the CPU compute a row with the same bits, and rows are always added in the same order. So no
// result depends on where an expert is. The CPU alone gives the same results with Backend::route() and
// Backend::experts().
//
// kernels/cuda/hybrid/cuda_hybrid_experts.h implements it. Engine thread.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/experts.h"

namespace hearth {

/// A view of a layer's experts in host memory and in device memory.
struct HybridExpertLayer {
  int layer = 0;  // its number in the model
  // [n_experts] all experts, in host memory. They have down columns if the slots have them, and these are
  // packed (kernels/quant/coded_columns.h). Then the device and the CPU skip zeros.
  std::span<const Expert> host;
  const DeviceExperts* device = nullptr;  // the experts that have a slot
  bool host_pinned = false;               // ComputeDevice::pin_to_copy() has granted the missing experts
  FfnActivation activation;

  /// Whether every expert has a slot.
  bool all_resident() const { return device->n_slots == static_cast<int>(host.size()); }
};

/// The inputs of a layer's mixture in one step. Pointers are device memory.
struct HybridExpertCall {
  const float* x = nullptr;       // [n_tokens, d_model]
  const float* logits = nullptr;  // [n_tokens, router.n_experts]
  Router router;
  int n_tokens = 0;
  float* out = nullptr;  // [n_tokens, d_model], to which the sum is added
  /// [n_tokens, d_model] scratch: experts read x times the weight of their token, and the sum has weights
  /// of 1. Null: they read x. REQUIRES: null unless router.n_used is 1.
  float* weighted_x = nullptr;
  // Whether the choice is handed over even if the CPU has nothing to compute.
  bool wants_choice = false;
};

/// An expert that takes the slot of another one.
struct SlotChange {
  int32_t slot = 0, expert = 0, evicted = 0;
  const Expert* from = nullptr;          // `expert`, in page-locked host memory
  const DeviceExperts* layer = nullptr;  // the slots of the layer
};

class HybridExperts {
 public:
  virtual ~HybridExperts() = default;

  /// Enqueues the choice, the hand-over, and the device's rows. Calls of the device's backend that follow run
  /// while the CPU computes its share. REQUIRES: 0 < n_tokens <= StepBounds::max_expert_tokens.
  virtual void begin(const HybridExpertLayer& layer, const HybridExpertCall& call) = 0;

  /// Starts all calls made so far, waits until the choice has arrived in host memory, and returns it. The
  /// choice is valid until the next begin(). Without a hand-over, wait() returns a choice of 0 tokens at
  /// once. Throws the device's error if the device fails.
  virtual ExpertChoice wait() = 0;

  /// Computes the missing rows on the CPU, and enqueues the sum: adds each token's rows to call.out, the row
  /// of `shared` last. Adds all pairs to counts. In a long step without a hand-over, all pairs count as
  /// streamed, because the host does not know the choice, and ExpertCounts::read grows by all experts. In
  /// another step without a hand-over, it grows by one expert per pair, which is an upper bound. If zeros are
  /// skipped, Backend::finish() adds the device's part of ExpertCounts::passed and active, so `counts` must
  /// be the same in all layers of a step.
  virtual void end(const GatedSharedExpert& shared, ExpertCounts& counts) = 0;

  // -- Changing which experts are resident --

  /// The maximum number of changes under way at a time for experts like `one`; 0: their slots cannot be
  /// changed.
  virtual int most_changes(const Expert& one) const = 0;
  /// Starts to copy the expert to the device. The copy runs beside the step and later steps, in which the
  /// slot still has the evicted expert. Call it between steps or, in a step, after end(). REQUIRES: fewer
  /// than most_changes() changes are under way, and none for the same slot; the expert has the form that
  /// most_changes() got.
  virtual void begin_change(const SlotChange& change) = 0;
  /// How many of the changes under way have arrived, counted in the order in which they began. Does not wait.
  virtual int changes_arrived() = 0;
  /// Moves the experts of the first n changes into their slots, and updates DeviceExperts::slot_of, before
  /// the next step runs on the device. The caller updates DeviceExperts::slots. If a copy has not arrived,
  /// the device waits for it. Call it between steps. REQUIRES: n changes are under way.
  virtual void end_changes(int n) = 0;
  /// Seconds that the copy of the last change ended by end_changes() took; 0: not known.
  virtual double change_seconds() const = 0;
};

}  // namespace hearth
