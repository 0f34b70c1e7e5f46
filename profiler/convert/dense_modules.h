// The dense layers that a sentence-transformers model has behind its pooling, each in a folder of its own.
#pragma once

#include <memory>
#include <vector>

#include "profiler/convert/checkpoint.h"
#include "profiler/convert/config.h"
#include "profiler/convert/tensor_plan.h"

namespace hearth::convert {

class DenseModules {
 public:
  /// Opens the modules of type Dense that modules.json lists, in its order; none without that file. Throws
  /// std::runtime_error (one sentence) if a module is damaged, or differs from those that run.
  explicit DenseModules(const Checkpoint& checkpoint);

  /// Adds their tensors, "dense_2.weight" and so on, and the keys of their sizes. `type` is the type of
  /// matrices. The plan points into this object.
  void add(DType type, std::vector<PlannedTensor>& plan, KeyList& keys) const;

 private:
  std::vector<std::unique_ptr<const Checkpoint>> modules_;
};

}  // namespace hearth::convert
