// Walking bytes as UTF-8 by the rules of the Unicode standard (table 3-7: no overlong forms, no surrogates).
//
// Used by the pre-tokenizer, which hands PCRE2 only well-formed text, and by the detokenizer, which shows
// only whole characters. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace hearth {

enum class Utf8Status {
  kWhole,       // a well-formed character
  kInvalid,     // bytes that no continuation can repair
  kIncomplete,  // the beginning of a character, cut off by the end of the bytes
};

struct Utf8Char {
  Utf8Status status;
  /// Bytes of the character, or of the maximal subpart of an ill-formed one: what one U+FFFD stands for.
  size_t length;
};

/// Classifies the front of bytes. REQUIRES: bytes is not empty. 1 <= length <= 4.
Utf8Char utf8_front(std::string_view bytes);

/// Number of bytes at the front of bytes that are well-formed UTF-8.
size_t utf8_valid_prefix(std::string_view bytes);

}  // namespace hearth
