// "Did you mean": the known name closest to a mistyped one. Used by read_invocation for flags, keys and
// variables.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// The candidate with the fewest insertions, deletions and substitutions (Levenshtein 1966), or nullopt if
/// even that one is further away than 2 or a third of the word's length: then it is not a typing mistake.
std::optional<std::string> closest_name(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace hearth
