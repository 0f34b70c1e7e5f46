// "Did you mean": finds the known name that is closest to a mistyped one, for flags, keys, environment
// variables and models. Pure functions.
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

/// Returns the text's ASCII letters, in lower case, and digits, to compare names that differ only in other
/// characters: "llama-3.2-1b" and "Llama3.2:1B" give "llama321b".
std::string letters_and_digits(std::string_view text);

}  // namespace hearth
