// Finds GGUF's name for the pre-tokenizer that a tokenizer.json describes.
//
// llama.cpp's converter tokenizes a fixed text and recognizes the pre-tokenizer by a hash of the tokens. The
// hash also depends on the vocabulary, so every new model has to be added to llama.cpp's list. Hearth instead
// executes the definition: its regular expressions split a text full of special cases, and the result is the
// name of a known pre-tokenizer that splits the text in the same way.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::convert {

/// Returns the regular expressions of tokenizer.json's "pre_tokenizer", in order. Each match of an
/// expression, and each stretch between two matches, is a piece, which the next expression splits further.
/// Throws std::runtime_error (one sentence that begins with "tokenizer.json: ") if the pre-tokenizer contains
/// an element that occurs in no known byte-level tokenizer.
std::vector<std::string> split_stages(const nlohmann::json& pre_tokenizer);

/// Returns the name of a known pre-tokenizer that splits text as `stages` do, or an empty string if there is
/// none. If there are several, chooses one with the same ignore_merges (the field in tokenizer.json's
/// "model"), and among these the one that is named first in `preferred` (names separated by spaces). Throws
/// like split_stages() if an expression does not compile.
std::string name_of_stages(const std::vector<std::string>& stages, std::string_view preferred,
                           bool ignore_merges);

}  // namespace hearth::convert
