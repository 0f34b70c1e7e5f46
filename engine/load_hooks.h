// Hooks with which tests replace parts that a loaded model otherwise creates itself. Only tests use them.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "kernels/experts.h"
#include "kernels/row_copier.h"
#include "kernels/row_prefetcher.h"

namespace hearth {

struct LoadHooks {
  /// Decides which neurons move to and from the device rows of a GPU's neuron cache. Must outlive the model.
  /// Null: the Prefetcher decides.
  RowPrefetcher* prefetcher = nullptr;
  /// Called with the default copier; returns the copier that copies neurons to the GPU's cache. Empty: the
  /// default copier is used.
  std::function<std::unique_ptr<RowCopier>(std::unique_ptr<RowCopier> copier)> wrap_copier;
  /// Called with the experts that the GPU holds [n_layers], before the first step. May change their weights.
  std::function<void(std::span<const DeviceExperts> experts)> change_experts;
};

}  // namespace hearth
