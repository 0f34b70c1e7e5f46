// Maps each layer of a model to the processor that computes it: the CPU or a device.
//
// Users keep their own copy of a Devices object. The backends must outlive all copies. Each layer's
// attention, keys, values and norms belong to one processor. The neurons of a device's layer may be shared
// between the device and the CPU (kernels/hybrid_ffn.h).
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/compute_device.h"

namespace hearth {

class Devices {
 public:
  /// The CPU computes everything.
  Devices(Backend& cpu) : cpu_(&cpu) {}  // NOLINT: implicit because it is the usual case
  /// The device computes the output, and every layer i for which on_device[i] is true.
  Devices(Backend& cpu, ComputeDevice& device, std::vector<bool> on_device)
      : cpu_(&cpu), device_(&device), on_device_(std::move(on_device)) {}

  Backend& cpu() const { return *cpu_; }
  ComputeDevice* device() const { return device_; }  // null: none
  bool on_device(int layer) const { return device_ != nullptr && on_device_[static_cast<size_t>(layer)]; }
  Backend& of_layer(int layer) const { return on_device(layer) ? device_->backend() : *cpu_; }
  /// The backend of the output norm and matrix.
  Backend& of_output() const { return device_ == nullptr ? *cpu_ : device_->backend(); }
  bool cpu_has_layers() const {
    if (device_ == nullptr) return true;
    for (const bool on : on_device_) {
      if (!on) return true;
    }
    return false;
  }

 private:
  Backend* cpu_;
  ComputeDevice* device_ = nullptr;
  std::vector<bool> on_device_;  // [n_layers]
};

}  // namespace hearth
