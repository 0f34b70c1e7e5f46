// Binds the tensors of layers of Mamba-2. Called by bind_weights().
#pragma once

#include <string>

#include "engine/model/binder.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"

namespace hearth {

/// Binds the tensors whose names begin with `prefix` ("blk.3."). Throws ModelFileError as Binder does, and if
/// a number of ssm_a could make a state grow.
DeltaWeights bind_mamba(Binder& bind, const ModelSpec& spec, const std::string& prefix);

}  // namespace hearth
