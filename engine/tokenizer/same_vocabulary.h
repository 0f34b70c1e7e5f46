// Whether two models mean the same by their token ids, so that one can draft for the other.
#pragma once

#include <optional>
#include <string>

#include "engine/tokenizer/vocabulary.h"

namespace hearth {

/// What differs, as a clause: "token 5 is \"a\" there and \"b\" in the model". Nothing does if all tokens of the shorter
/// vocabulary have the same texts, what the longer one has besides is unused padding, and both begin and end texts with the
/// same tokens.
std::optional<std::string> vocabulary_difference(const Vocabulary& model, const Vocabulary& other);

}  // namespace hearth
