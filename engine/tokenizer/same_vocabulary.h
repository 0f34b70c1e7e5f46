// Checks whether token ids mean the same in two models, so that one can draft for the other.
#pragma once

#include <optional>
#include <string>

#include "engine/tokenizer/vocabulary.h"

namespace hearth {

/// Returns the difference as a clause ("token 5 is \"a\" there and \"b\" in the model"), or nullopt. There is
/// none if all tokens of the shorter vocabulary have equal texts, the longer one adds only unused padding,
/// and both begin and end texts with the same tokens.
std::optional<std::string> vocabulary_difference(const Vocabulary& model, const Vocabulary& other);

}  // namespace hearth
