// Decides the properties of ASCII characters, which most text consists of, without a table. For other
// characters, uses utf8proc's table.
#include "engine/text/unicode_properties.h"

#include <utf8proc.h>

#include <array>

namespace hearth {
namespace {

constexpr char32_t kDelete = 0x7F, kAfterAscii = 0x80;

bool is_ascii(char32_t c) { return c < kAfterAscii; }

bool is_ascii_letter_or_digit(char32_t c) {
  return (c >= U'0' && c <= U'9') || (c >= U'A' && c <= U'Z') || (c >= U'a' && c <= U'z');
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

}  // namespace

bool is_nonspacing_mark(char32_t c) { return !is_ascii(c) && category(c) == UTF8PROC_CATEGORY_MN; }

bool is_punctuation(char32_t c) {
  if (is_ascii(c)) return c > U' ' && c < kDelete && !is_ascii_letter_or_digit(c);
  const utf8proc_category_t of_c = category(c);
  return of_c >= UTF8PROC_CATEGORY_PC && of_c <= UTF8PROC_CATEGORY_PO;
}

bool is_other(char32_t c) {
  if (is_ascii(c)) return c < U' ' || c == kDelete;
  const utf8proc_category_t of_c = category(c);
  return of_c == UTF8PROC_CATEGORY_CC || of_c == UTF8PROC_CATEGORY_CF || of_c == UTF8PROC_CATEGORY_CO;
}

char32_t lower_case(char32_t c) {
  if (is_ascii(c)) return c >= U'A' && c <= U'Z' ? c - U'A' + U'a' : c;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void append_decomposed(char32_t c, std::u32string& out) {
  if (is_ascii(c)) {
    out += c;
    return;
  }
  std::array<utf8proc_int32_t, 4> parts{};  // the longest canonical decomposition of a character
  int boundary = 0;                         // grapheme boundary; not used
  const utf8proc_ssize_t n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                              static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_DECOMPOSE, &boundary);
  for (utf8proc_ssize_t i = 0; i < n; ++i) out += static_cast<char32_t>(parts[static_cast<size_t>(i)]);
}

}  // namespace hearth
