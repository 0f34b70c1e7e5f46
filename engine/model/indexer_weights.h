// Binds the tensors of a layer's indexer to IndexerWeights.
#pragma once

#include <string>

#include "engine/model/binder.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"

namespace hearth {

/// Throws ModelFileError if a tensor is missing or has another shape. In layers that do not index, accepts
/// the tensors and returns empty weights.
IndexerWeights bind_indexer(Binder& bind, const ModelSpec& spec, bool indexes, const std::string& prefix);

}  // namespace hearth
