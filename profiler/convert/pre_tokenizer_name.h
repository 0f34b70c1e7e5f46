// Finds the name that GGUF has for the pre-tokenizer of a tokenizer.json.
//
// llama.cpp's converter recognizes a pre-tokenizer by a hash of the tokens of a text. The hash depends on the
// vocabulary too, so every new model has to be added to its list. Here the definition is executed: its
// expressions cut a text full of special cases, and the result is the name of a known pre-tokenizer that cuts
// the text in the same way.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::convert {

/// The expressions of a "pre_tokenizer" of tokenizer.json, in order; each match and each stretch between
/// matches is a piece. Throws std::runtime_error (one sentence that begins with "tokenizer.json: ") if it has
/// a part that occurs in no known model's byte-level tokenizer.
std::vector<std::string> split_stages(const nlohmann::json& pre_tokenizer);

/// The name of a known pre-tokenizer that cuts as `stages` do: the first in `preferred` (names separated by
/// spaces), or else the first of all. Empty if there is none. ignore_merges: the field of tokenizer.json's
/// model; names with the same value go before others. Throws like split_stages() if an expression does not
/// compile.
std::string name_of_stages(const std::vector<std::string>& stages, std::string_view preferred,
                           bool ignore_merges);

}  // namespace hearth::convert
