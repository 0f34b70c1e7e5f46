// Sets of Unicode code points as sorted ranges: what a class of a regular expression or of a grammar stands for.
//
// Used by the parsers of both and by what writes characters as JSON. Pure functions, any thread.
#pragma once

#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

/// Ranges in ascending order, none touching the next. Surrogates may lie in a range; no text has them.
using CharacterSet = std::vector<CharRange>;

constexpr char32_t kLastCodePoint = 0x10FFFF;

/// The set of the given ranges, in any order and overlapping.
CharacterSet character_set(std::vector<CharRange> ranges);
CharacterSet all_characters();
/// All characters that are not in the set.
CharacterSet complement(const CharacterSet& set);
/// What is in both.
CharacterSet intersection(const CharacterSet& a, const CharacterSet& b);
bool contains(const CharacterSet& set, char32_t c);

}  // namespace hearth
