// Finds the name that GGUF has for the pre-tokenizer of a tokenizer.json.
//
// llama.cpp's converter recognises a pre-tokenizer by a hash of the tokens of a text, which depends on the vocabulary too,
// so that every new model has to be added to its list. Here the definition itself is carried out: its expressions cut a
// text full of cases, and the name is that of a known pre-tokenizer that cuts the text alike.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::convert {

/// The expressions of a "pre_tokenizer" of tokenizer.json, in order; each match and each stretch between matches is a
/// piece. Throws std::runtime_error (one sentence that begins with "tokenizer.json: ") if it has a part that no byte-level
/// tokenizer of a known model has.
std::vector<std::string> split_stages(const nlohmann::json& pre_tokenizer);

/// The name of a known pre-tokenizer that cuts as `stages` do: the first of `preferred` (names separated by spaces), or
/// else of all. ignore_merges: of tokenizer.json's model; a name whose habit it is goes before others. Empty if there is
/// none. Throws like split_stages if an expression does not compile.
std::string name_of_stages(const std::vector<std::string>& stages, std::string_view preferred,
                           bool ignore_merges);

}  // namespace hearth::convert
