// The experts of a mixture with their down projections turned to one row for each neuron, so that exact mode can skip
// the neurons whose value is zero.
//
// Gate and up rows lie one per neuron in the file already and are read there; down projections run along the neurons,
// and are copied without changing a weight (CodedColumns in kernels/neurons.h). The file's own are then read no more.
// NeuronSetup builds it at load; const afterwards.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "engine/model/weights.h"
#include "kernels/experts.h"
#include "kernels/memory.h"

namespace hearth {

class ExpertLayout {
 public:
  /// No experts.
  ExpertLayout() = default;
  /// Allocates the copies; fill() writes them. The weights must outlive it. Throws std::bad_alloc.
  ExpertLayout(const Weights& weights, Memory& memory);

  /// Bytes that the constructor allocates.
  static double copied_bytes(const Weights& weights);

  /// Copies all down projections by n_threads threads, and releases the file's pages behind those of a layer when it is
  /// copied. `progress` (may be empty) is called from the calling thread with the fraction done; what it throws is thrown.
  void fill(int n_threads, const std::function<void(double)>& progress);

  bool empty() const { return layers_.empty(); }
  size_t bytes() const;
  /// MixtureWeights::experts and ::shared of a layer, with down columns. REQUIRES: not empty().
  std::span<const Expert> experts(int layer) const { return layers_[static_cast<size_t>(layer)].experts; }
  std::span<const Expert> shared(int layer) const { return layers_[static_cast<size_t>(layer)].shared; }

 private:
  struct Layer {
    std::vector<Expert> experts, shared;
    Buffer memory;  // of both
  };
  std::vector<Layer> layers_;
};

}  // namespace hearth
