// The names of FFN activations, and the decision which one a model has.
//
// GGUF says nothing of the activation: it follows from the architecture, and of models that were trained on
// with another one (ReluLLaMA, ProSparse) only people know it. They tell it by --ffn-activation or by the key
// hearth.ffn_activation. Pure functions, called at load.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "kernels/backend.h"

namespace hearth {

/// relu, drelu, fatrelu:T (T a number from 0 to 1000), relu2, silu, gelu (by tanh). nullopt: no such name.
std::optional<FfnActivation> parse_ffn_activation(std::string_view name);

/// The name that parses to it; gelu for both kinds of it.
std::string ffn_activation_name(FfnActivation activation);

/// The activation of a model: what the user says (`option`, empty: nothing), else key hearth.ffn_activation,
/// else what PowerInfer gives the architecture if the file is PowerInfer's, else the architecture's. gelu
/// means the architecture's kind of it, if that has one. Throws std::invalid_argument if `option` is no name;
/// ModelFileError if the key is none, if the two differ or if one contradicts the architecture.
FfnActivation decide_ffn_activation(const ModelFile& file, const Architecture& arch, std::string_view option);

}  // namespace hearth
