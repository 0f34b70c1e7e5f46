// The names of FFN activations, and which activation a model has.
//
// GGUF does not store the activation: it follows from the architecture. Some models were trained with another
// one (ReluLLaMA, ProSparse), which only their users know; they set it by --ffn-activation or the key
// hearth.ffn_activation. Pure functions, called at load.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "kernels/backend.h"

namespace hearth {

/// Parses relu, drelu, fatrelu:T (T a number from 0 to 1000), relu2, silu, gelu (by tanh). nullopt: no such
/// name.
std::optional<FfnActivation> parse_ffn_activation(std::string_view name);

/// The name that parses to this activation; gelu for both of its kinds.
std::string ffn_activation_name(FfnActivation activation);

/// The activation of a model: the user's `option` if not empty, else key hearth.ffn_activation, else the one
/// that PowerInfer gives the architecture if the file is PowerInfer's, else the architecture's. gelu means
/// the architecture's kind of gelu, if it has one. Throws std::invalid_argument if `option` is no name of an
/// activation; ModelFileError if the key is none, if option and key differ, or if one of them contradicts the
/// architecture.
FfnActivation decide_ffn_activation(const ModelFile& file, const Architecture& arch, std::string_view option);

}  // namespace hearth
