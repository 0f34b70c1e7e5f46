// "Did you mean": finds the known name closest to a mistyped one. Used by read_invocation for flags, keys and
// variables.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// The candidate with the fewest insertions, deletions and substitutions (Levenshtein 1966). nullopt if even
/// that one takes more than 2 (1 for words of under 4 letters) and more than a third of the word's length, so
/// the word is not a typing mistake, or if the word has more than 64 bytes.
std::optional<std::string> closest_name(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace hearth
