// A device with the host's memory and a CPU backend's arithmetic, for tests of single passes.
#pragma once

#include <functional>
#include <stdexcept>

#include "kernels/compute_device.h"

namespace hearth::test {

class BackendDevice final : public ComputeDevice {
 public:
  explicit BackendDevice(Backend& backend) : backend_(backend) {}

  /// Sets the neurons that found() writes in call number `call`.
  std::function<void(int call, const ActiveNeurons& to)> on_found;

  Backend& backend() override { return backend_; }
  HybridFfn& hybrid_ffn() override { throw std::logic_error("This device has no hybrid FFN."); }
  void reserve(const StepBounds& bounds) override { backend_.reserve(bounds); }
  void begin_step(const StepShape&) override {}
  int long_step() const override { return 1; }
  bool streams_layers(int) const override { return false; }
  bool pin_to_copy(const std::byte*, size_t) override { return false; }
  void forget_recorded() override {}
  void reserve_found(int, int, int64_t) override {}
  void found(int call, const ActiveNeurons& to) override { on_found(call, to); }

 private:
  Backend& backend_;
};

}  // namespace hearth::test
