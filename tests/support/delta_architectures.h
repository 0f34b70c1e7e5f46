// The rows of the architectures with gated delta nets. Hearth's table does not have them, because the forward
// pass cannot run the models; tests and the fuzzer of the readers of files pass a row explicitly.
#pragma once

#include <string_view>

#include "engine/model/architecture.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"

namespace hearth::test {

/// Returns the row of "qwen35", "qwen35moe" or "qwen3next", or null for another name.
const Architecture* delta_architecture(std::string_view name);

/// Reads the facts of a model of any architecture, including these three. Throws as read_model_spec() does.
ModelSpec read_any_model_spec(const ModelFile& file);

}  // namespace hearth::test
