// Checks whether token ids mean the same in two models, so that one model can draft tokens for the other.
#pragma once

#include <optional>
#include <string>

#include "engine/tokenizer/vocabulary.h"

namespace hearth {

/// Returns the difference between the vocabularies as a clause ("token 5 is \"a\" there and \"b\" in the
/// model"), or nullopt if there is none. The vocabularies count as equal if all tokens of the shorter one
/// have the same texts in the longer one, the other tokens of the longer one are unused padding, and both
/// have the same begin and end tokens.
std::optional<std::string> vocabulary_difference(const Vocabulary& model, const Vocabulary& other);

}  // namespace hearth
