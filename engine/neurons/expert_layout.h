// The experts of a mixture with transposed down projections: one row per neuron, so that exact mode can skip
// neurons with value zero.
//
// The model file already stores gate and up rows per neuron, so these are read from the file. The file's down
// projections have one row per output, so they are transposed into copies, without changing a weight
// (CodedColumns in kernels/neurons.h). After the copy, the file's down projections are not read. NeuronSetup
// builds an ExpertLayout at load; const afterward.
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
  /// Allocates the copies; fill() writes them. The weights must outlive this object. Throws std::bad_alloc.
  ExpertLayout(const Weights& weights, Memory& memory);

  /// Bytes that the constructor allocates.
  static double copied_bytes(const Weights& weights);

  /// Copies all down projections with n_threads threads, and releases the file's pages of each layer once it
  /// is copied. The calling thread calls `progress` (may be empty) with the fraction done; its exceptions
  /// propagate.
  void fill(int n_threads, const std::function<void(double)>& progress);

  bool empty() const { return layers_.empty(); }
  size_t bytes() const;
  /// A layer's MixtureWeights::experts and MixtureWeights::shared, with transposed down projections.
  /// REQUIRES: not empty().
  std::span<const Expert> experts(int layer) const { return layers_[static_cast<size_t>(layer)].experts; }
  std::span<const Expert> shared(int layer) const { return layers_[static_cast<size_t>(layer)].shared; }

 private:
  struct Layer {
    std::vector<Expert> experts, shared;
    Buffer memory;  // down columns of both
  };
  std::vector<Layer> layers_;
};

}  // namespace hearth
