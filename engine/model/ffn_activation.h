// Names FFN activations, and decides which activation a model has.
//
// GGUF does not store the activation, because the architecture determines it. Some models (ReluLLaMA,
// ProSparse) were trained with an activation that differs from their architecture's. The users of these
// models must specify it, with --ffn-activation or the key hearth.ffn_activation. Pure functions, called at
// load.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "kernels/backend.h"

namespace hearth {

/// Parses relu, drelu, fatrelu:T (T a number from 0 to 1000), relu2, silu, gelu (the tanh form) and
/// swiglu-oai. Returns nullopt for any other name.
std::optional<FfnActivation> parse_ffn_activation(std::string_view name);

/// Returns the name that parses to this activation. Both kinds of gelu have the name gelu. kXielu has the
/// name xielu, which does not parse because its numbers come from the file.
std::string ffn_activation_name(FfnActivation activation);

/// Returns the activation of a model. Uses the first of these that exists: the user's `option` (if not
/// empty), the key hearth.ffn_activation, PowerInfer's activation for the architecture (if the file is
/// PowerInfer's), and the architecture's activation. The name gelu means the architecture's kind of gelu, if
/// it has one. Throws std::invalid_argument if `option` is not a known name. Throws ModelFileError if the
/// key's value is unknown, if option and key differ, or if one of them contradicts the architecture.
FfnActivation decide_ffn_activation(const ModelFile& file, const Architecture& arch, std::string_view option);

}  // namespace hearth
