// Unicode properties of single characters, which WordPiece's normalization needs. They are taken from
// utf8proc. C++ provides none of them, and PCRE2 has no case mappings or decompositions.
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

/// Returns the simple lower case of c, or c if it has none. Only U+0130 has a different full lower case,
/// which consists of two characters.
char32_t lower_case(char32_t c);

/// Appends the canonical decomposition (NFD) of c, or c itself if it has none. Does not reorder marks.
void append_decomposed(char32_t c, std::u32string& out);

}  // namespace hearth
