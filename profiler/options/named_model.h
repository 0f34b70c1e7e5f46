// Opens the model that the user's options name: a model file, or a shape without a file.
#pragma once

#include <string>

#include "profiler/plan/planned_model.h"

namespace hearth {

/// Returns the model in `file`, or a model of `shape` with weights of type `type`; either `file` or `shape`
/// must be empty. `command` is named in messages. Throws std::runtime_error (one sentence) if both or neither
/// are given, and for unknown names.
PlannedModel named_model(const std::string& file, const std::string& ffn_activation, const std::string& shape,
                         const std::string& type, const std::string& command);

}  // namespace hearth
