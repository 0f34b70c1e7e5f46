// "Did you mean": finds the known name that is closest to a mistyped one. read_invocation uses this for
// flags, keys and environment variables.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Returns the candidate that needs the fewest insertions, deletions and substitutions (Levenshtein 1966).
/// Returns nullopt if the word is not a typing mistake: the best candidate needs more than 2 changes (1 for
/// words shorter than 4 letters) and more than a third of the word's length, or the word is longer than 64
/// bytes.
std::optional<std::string> closest_name(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace hearth
