// Opens the model that options name: a file, or a shape without a file.
#pragma once

#include <string>

#include "profiler/plan/planned_model.h"

namespace hearth {

/// The model of `file`, or of `shape` with weights of `type`; one of the two is empty. `command` is for
/// messages. Throws std::runtime_error (one sentence) if both or none are given, and for unknown names.
PlannedModel named_model(const std::string& file, const std::string& ffn_activation, const std::string& shape,
                         const std::string& type, const std::string& command);

}  // namespace hearth
