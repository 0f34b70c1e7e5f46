// Unicode properties of single characters that WordPiece's normalization needs, from utf8proc. C++ has none
// of them, and PCRE2 has no mappings.
//
// Pure functions, any thread. The argument is a Unicode scalar value.
#pragma once

#include <string>

namespace hearth {

/// General category Mn: accents and vowel signs that take no space.
bool is_nonspacing_mark(char32_t c);

/// General categories P*, and ASCII symbols ($+<=>^`|~).
bool is_punctuation(char32_t c);

/// General categories Cc, Cf and Co: control, format and private-use characters.
bool is_other(char32_t c);

/// Returns the simple lower case of c, or c if it has none. Only U+0130 has a full lower case that differs:
/// it has two characters.
char32_t lower_case(char32_t c);

/// Appends the canonical decomposition of c (NFD), or c itself. Marks keep their order.
void append_decomposed(char32_t c, std::u32string& out);

}  // namespace hearth
