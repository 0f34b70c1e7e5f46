// Decodes bytes as UTF-8 by the rules of the Unicode standard (table 3-7: no overlong forms, no surrogates).
//
// Used by the pre-tokenizer, because PCRE2 needs well-formed text; by the detokenizer, which emits only whole
// characters; and by constraints. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hearth {

enum class Utf8Status {
  kWhole,       // a well-formed character
  kInvalid,     // bytes that no continuation can repair
  kIncomplete,  // the beginning of a character, cut off by the end of the bytes
};

struct Utf8Char {
  Utf8Status status;
  /// The length of the character in bytes. If it is ill-formed, the length of its maximal subpart: the bytes
  /// that a single U+FFFD replaces.
  size_t length;
};

/// Classifies the first character of `bytes`. Its length is 1 to 4. REQUIRES: bytes is not empty.
Utf8Char utf8_front(std::string_view bytes);

/// Returns the length in bytes of the first character, or 1 if the character is ill-formed. REQUIRES: text is
/// not empty.
size_t character_length(std::string_view text);

/// Returns the number of bytes at the front of `bytes` that are well-formed UTF-8.
size_t utf8_valid_prefix(std::string_view bytes);

/// Returns the code points of a text. REQUIRES: the text is well-formed.
std::u32string code_points(std::string_view text);

/// REQUIRES: c is at most U+10FFFF and not a surrogate.
void append_utf8(char32_t c, std::string& out);

}  // namespace hearth
