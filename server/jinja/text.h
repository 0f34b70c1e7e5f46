// Text as Python's str sees it: by code point, with its white space, letter case, searching, splitting and
// replacing. Shared by the lexer, the filters and the string methods.
//
// Text is UTF-8 throughout; a byte that is not part of a valid sequence counts as one code point, U+FFFD.
// Letter case covers Latin, Greek and Cyrillic, which is what chat templates touch; other scripts pass
// unchanged. Pure functions, any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/jinja/value.h"

namespace hearth::jinja {

// The code point at byte `at` < text.size(); moves `at` past it.
char32_t next_code_point(std::string_view text, std::size_t& at);
void append_code_point(std::string& text, char32_t c);
bool is_valid_utf8(std::string_view text);

bool is_ascii(std::string_view text);
std::size_t count_code_points(std::string_view text);
// Byte offset of the code point with that index; text.size() when there are fewer.
std::size_t byte_offset(std::string_view text, std::size_t index);

// str.isspace(), str.isprintable(), str.isupper() and str.islower() of one character.
bool is_space(char32_t c);
bool is_printable(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
inline bool is_cased(char32_t c) { return is_upper(c) || is_lower(c); }

char32_t to_lower(char32_t c);
// Appends, because the sharp s becomes two letters.
void append_upper(std::string& text, char32_t c);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
// str.title(): a letter is large when the one before it is not a letter.
std::string title(std::string_view text);

enum class Side { left, right, both };
// str.strip(), lstrip() and rstrip(). Removes white space, or the code points of `chars` if given.
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view chars);

// Byte position of the first occurrence at or after `from`, and of the last occurrence; npos if there is
// none. Both take linear time. std::string's own searches are quadratic at worst, which a hostile template
// could use.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from);
std::size_t find_last_text(std::string_view text, std::string_view part);

// str.splitlines(): splits at line ends, including \v, \f, the information separators, U+0085, U+2028 and
// U+2029.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
// str.split() without a separator: at white space, at most max_splits times; every time if max_splits is
// negative.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t max_splits);
// str.split(separator) and str.rsplit(separator); separator is not empty.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       std::int64_t max_splits);
std::vector<std::string_view> split_at_from_right(std::string_view text, std::string_view separator,
                                                  std::int64_t max_splits);

// str.replace(), at most max_count times; every time if max_count is negative. Charges the memory of the
// result.
std::string replace_all(std::string_view text, std::string_view old_part, std::string_view new_part,
                        std::int64_t max_count, Budget& budget);

}  // namespace hearth::jinja
