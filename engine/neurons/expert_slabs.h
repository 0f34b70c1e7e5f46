// A layer's resident experts: the experts that a placement chose, in a device's memory. Each has a slot in
// one matrix of each kind, as DeviceExperts defines it (kernels/experts.h); expert_types.h in
// kernels/cuda/ops says how rows lie there.
//
// The constructor allocates and fill() copies. A plan runs the constructor with a MemoryMeter, so it counts
// the bytes that loading takes. Experts are copied one by one, so a copy of all of them in host memory is
// never needed. The file's own experts stay in its mapping. NeuronSetup builds it at load, on the loading
// thread; const afterward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/weights.h"
#include "kernels/compute_device.h"
#include "kernels/experts.h"
#include "kernels/memory.h"

namespace hearth {

/// Why a device cannot hold experts of this layer, as a phrase; empty: it can. A device's kernels need
/// weights of types that they read (expert_types.h and device_types.h in kernels/cuda/ops), and experts of
/// one shape and type. REQUIRES: the layer has experts.
std::string why_not_resident(const MixtureWeights& mixture);

/// Bytes of device memory that one slot's weights take: gate, up and down rows of one expert. REQUIRES: the
/// layer has experts.
size_t slot_bytes(const MixtureWeights& mixture);

class ExpertSlabs {
 public:
  /// No slots: the experts are all in host memory.
  ExpertSlabs() = default;
  /// Allocates n_slots slots, and what else a device that holds experts needs of the layer: the biases and
  /// the slot of each expert, the bias of the choice, and the shared expert if it has a gate; copies the last
  /// two. `experts`: numbers, ascending; slot s is for experts[s], the slots after them stay empty. Without
  /// slots, nothing is allocated. Throws std::bad_alloc. REQUIRES: why_not_resident(mixture) is empty;
  /// experts.size() <= n_slots.
  ExpertSlabs(const MixtureWeights& mixture, std::span<const int32_t> experts, int n_slots, Memory& memory);

  /// Copies the experts, their biases and the slots' numbers. `mixture` is that of the constructor, and
  /// `device` owns its memory. `copied` is called from this thread after each expert, with its bytes; its
  /// exceptions propagate.
  void fill(const MixtureWeights& mixture, ComputeDevice& device,
            const std::function<void(size_t bytes)>& copied) const;

  /// The device's memory; valid as long as this object. Null pointers after construction with a MemoryMeter.
  const DeviceExperts& view() const { return view_; }

 private:
  std::vector<int32_t> experts_;
  std::vector<int32_t> slots_;              // [n_experts] DeviceExperts::slots
  Buffer gate_, up_, down_;                 // [n_slots, ...]
  Buffer gate_bias_, up_bias_, down_bias_;  // [n_experts, ...], or empty
  Buffer slot_of_;                          // [n_experts]
  DeviceExperts view_;
};

}  // namespace hearth
