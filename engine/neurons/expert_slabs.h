// A layer's resident experts: the experts that a placement puts into a device's memory. Each has a slot in
// the gate, up and down matrices, as DeviceExperts defines it (kernels/experts.h).
// kernels/cuda/ops/expert_types.h defines the row format in a slot. In exact mode, a slot has the
// transposed down columns that ExpertLayout makes, instead of down rows.
//
// The constructor allocates and fill() copies. A plan runs the constructor with a MemoryMeter, to count the
// bytes that loading will take. Experts are copied one by one, so host memory never holds a copy of all of
// them. The experts in the model file stay mapped. NeuronSetup builds an ExpertSlabs for each layer
// at load, on the loading thread; const afterward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/weights.h"
#include "engine/neurons/sparsity.h"
#include "kernels/compute_device.h"
#include "kernels/experts.h"
#include "kernels/memory.h"

namespace hearth {

/// Returns the reason why a device cannot hold experts of this layer, as a phrase; empty if it can. The
/// experts may have any weight type, but must have the same shape and type. Shared experts need a type of
/// kernels/cuda/ops/device_types.h. REQUIRES: the layer has experts.
std::string why_not_resident(const MixtureWeights& mixture);

/// Returns the bytes of device memory that the weights of one slot take in this mode: gate, up and down of
/// one expert. REQUIRES: the layer has experts.
size_t slot_bytes(const MixtureWeights& mixture, Sparsity mode);
/// Bytes of the expert's down projection in a buffer for streaming (cuda::streamed_bytes()).
size_t streamed_down_bytes(const Expert& expert, Sparsity mode);

class ExpertSlabs {
 public:
  /// An object without slots: all experts are in host memory.
  ExpertSlabs() = default;
  /// Allocates n_slots slots, and the other data that a device with experts needs for the layer: the biases
  /// of the experts, the table of their slots, the router's choice bias, and the shared expert if it has a
  /// gate. Copies the choice bias and the shared expert now; fill() copies the rest of the data. `experts`:
  /// expert numbers, ascending; slot s is for experts[s], and the slots after the last expert stay empty. If
  /// n_slots is 0, allocates nothing. Throws std::bad_alloc. REQUIRES: why_not_resident(mixture) is empty;
  /// experts.size() <= n_slots.
  ExpertSlabs(const MixtureWeights& mixture, std::span<const int32_t> experts, int n_slots, Memory& memory,
              Sparsity mode = Sparsity::kDense);

  /// Copies the experts, their biases and the table of their slots. Calls `copied` on this thread after each
  /// expert, with the expert's size in bytes; exceptions of `copied` propagate. experts: all experts of the
  /// constructor's mixture, in exact mode with packed down columns (ExpertLayout). REQUIRES: the
  /// constructor's memory belongs to `device`.
  void fill(std::span<const Expert> experts, ComputeDevice& device,
            const std::function<void(size_t bytes)>& copied) const;

  /// The experts in the slots, by slot.
  std::span<const int32_t> experts() const { return experts_; }
  /// Updates the host's tables after a device has changed the expert of a slot (HybridExperts::end_changes).
  void exchange(int32_t slot, int32_t expert);

  /// Views of the device's memory, valid as long as this object. The pointers are null if the constructor got
  /// a MemoryMeter.
  const DeviceExperts& view() const { return view_; }

 private:
  std::vector<int32_t> experts_;            // [n_slots, or fewer if the last slots are empty]
  std::vector<int32_t> slots_;              // [n_experts] DeviceExperts::slots
  Buffer gate_, up_, down_;                 // [n_slots, ...]
  Buffer gate_bias_, up_bias_, down_bias_;  // [n_experts, ...], or empty
  Buffer slot_of_;                          // [n_experts]
  DeviceExperts view_;
};

}  // namespace hearth
