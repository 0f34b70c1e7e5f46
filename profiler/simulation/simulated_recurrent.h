// Recurrent layers on the host of a simulation: they compute nothing, but take the time that their memory and
// arithmetic would take.
//
// A step reads and writes each sequence's state once, however many tokens of the sequence it has
// (kernels/recurrent.h). The arithmetic grows with the tokens. Used by SimulatedHost, on the engine thread.
#pragma once

#include <functional>
#include <utility>

#include "kernels/recurrent.h"

namespace hearth {

class SimulatedRecurrent final : public RecurrentOps {
 public:
  /// read(bytes, multiply_adds) spends the time that this work takes. small() spends the time of an operation
  /// on activations.
  SimulatedRecurrent(std::function<void(double, double)> read, std::function<void()> small)
      : read_(std::move(read)), small_(std::move(small)) {}

  void causal_conv(const CausalConv&) override { small_(); }
  void delta_gates(const DeltaGates&) override { small_(); }
  void gated_delta(const GatedDelta& call) override { recur(call, 3.5); }
  void selective_scan(const SelectiveScan& call) override { recur(call.state, 2.5); }

 private:
  /// multiply_adds: how many each token needs for each number of the state.
  void recur(const GatedDelta& call, double multiply_adds) const {
    const auto n = static_cast<double>(call.shape.state_floats());
    double n_tokens = 0, n_states = 0;
    for (const RecurrentRun& run : call.runs) {
      n_tokens += run.n_tokens;
      n_states += run.n_tokens > 0 ? 1 : 0;
    }
    read_(2 * n_states * n * sizeof(float), multiply_adds * n_tokens * n);
  }

  const std::function<void(double, double)> read_;
  const std::function<void()> small_;
};

}  // namespace hearth
