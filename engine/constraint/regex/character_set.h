// Sets of Unicode code points as sorted ranges: what a class of a regular expression stands for.
//
// Used by the parser of regular expressions and by what writes characters as JSON. Pure functions, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
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

/// UTF-8 as code points. REQUIRES: text is well-formed.
std::u32string code_points(std::string_view text);
/// One code point as UTF-8. REQUIRES: c is no surrogate and at most kLastCodePoint.
std::string utf8(char32_t c);

}  // namespace hearth
