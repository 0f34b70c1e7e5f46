// A device that computes beside the CPU, as the engine sees it: its arithmetic, the layers it shares with the
// CPU, and what comes with work that the host only enqueues: steps that are recorded and played back, and
// counts of single neurons that are there when a step is over.
//
// kernels/cuda/cuda_backend.h makes the one there is. Engine thread.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/hybrid_ffn.h"
#include "kernels/neurons.h"

namespace hearth {

/// What tells steps apart whose calls are the same but for the numbers in their arrays. A device may record
/// the work of one and play it back for another of the same shape.
struct StepShape {
  int n_tokens = 0;
  int n_logit_rows = 0;
  int n_tables = 0;       // block tables that tokens refer to: 1 + the largest of KvPlaces::table_of
  int longest = 0;        // keys that a token sees at most
  bool decoding = false;  // every token continues its own sequence, so that more steps like it will follow
  bool notes = false;     // single neurons are counted: NeuronCounts::found

  bool operator==(const StepShape&) const = default;
};

class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  virtual Backend& backend() = 0;
  virtual HybridFfn& hybrid_ffn() = 0;

  /// Takes scratch for steps within these bounds, of the backend and of the hybrid FFN. At load only, once.
  virtual void reserve(const StepBounds& bounds) = 0;

  /// Begins a step: positions and places given to the backend's calls until the next one are the same in all
  /// of them.
  virtual void begin_step(const StepShape& shape) = 0;

  /// Drops what was recorded of earlier steps: the next ones have other weights, or run in another mode.
  virtual void forget_recorded() = 0;

  /// Takes host memory for what a step's calls of ffn_neurons(), down_neurons() and HybridFfn::run() with
  /// NeuronCounts::found find, at most n_calls for at most max_tokens tokens; before the first step that makes
  /// such calls. Between steps. Throws std::bad_alloc, and then there must be no such calls.
  virtual void reserve_found(int n_calls, int max_tokens, int64_t n_neurons) = 0;
  /// Writes what the step's call number `call` of those found to the memory of `to`. After finish().
  virtual void found(int call, const ActiveNeurons& to) = 0;
};

}  // namespace hearth
