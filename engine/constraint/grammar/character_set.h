// Sets of Unicode code points as sorted ranges. Character classes of regular expressions and grammars are
// such sets.
//
// Used by the parsers of regular expressions and grammars, and by the code that writes characters as JSON.
// Pure functions, any thread.
#pragma once

#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

/// Ranges in ascending order, with adjacent ranges merged. A range may contain surrogates, although no text
/// contains them.
using CharacterSet = std::vector<CharRange>;

constexpr char32_t kLastCodePoint = 0x10FFFF;

/// Returns the set of the given ranges, which may be unordered and overlap.
CharacterSet character_set(std::vector<CharRange> ranges);
CharacterSet all_characters();
/// Returns all characters that are not in the set.
CharacterSet complement(const CharacterSet& set);
/// Returns the characters in both sets.
CharacterSet intersection(const CharacterSet& a, const CharacterSet& b);
bool contains(const CharacterSet& set, char32_t c);

}  // namespace hearth
