// Python's string operations: code points, white space, letter case, searching, splitting and replacing. Used
// by the lexer, the filters and the string methods.
//
// All text is UTF-8. A byte that is not part of a valid sequence counts as one code point, U+FFFD. Letter
// case covers Latin, Greek and Cyrillic, which suffices for chat templates. Letters of other scripts stay
// unchanged. All functions are pure; any thread may call them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/jinja/value.h"

namespace hearth::jinja {

// Returns the code point at byte `at`, and moves `at` past it. REQUIRES: `at` < text.size().
char32_t next_code_point(std::string_view text, std::size_t& at);
void append_code_point(std::string& text, char32_t c);
bool is_valid_utf8(std::string_view text);

bool is_ascii(std::string_view text);
std::size_t count_code_points(std::string_view text);
// Returns the byte offset of the code point with this index, or text.size() if the text has fewer code
// points.
std::size_t byte_offset(std::string_view text, std::size_t index);

// Implement str.isspace(), str.isprintable(), str.isupper() and str.islower() for one character.
bool is_space(char32_t c);
bool is_printable(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
inline bool is_cased(char32_t c) { return is_upper(c) || is_lower(c); }

char32_t to_lower(char32_t c);
// Appends the capital form of c to `text`. It can have two letters: the sharp s becomes SS.
void append_upper(std::string& text, char32_t c);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
// Implements str.title(): a letter becomes a capital if no letter precedes it.
std::string title(std::string_view text);

enum class Side { left, right, both };
// Implement str.strip(), lstrip() and rstrip(). chars: the code points to remove, instead of white space.
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view chars);

// Return the byte position of the first occurrence at or after `from`, and of the last occurrence, or npos if
// there is none. Take linear time. The searches of std::string take quadratic time in the worst case, which a
// malicious template could exploit.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from);
std::size_t find_last_text(std::string_view text, std::string_view part);

// Implements str.splitlines(): splits at line ends, which include \v, \f, the information separators, U+0085,
// U+2028 and U+2029.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
// Implements str.split() without a separator: splits at white space. max_splits: the limit of splits;
// negative: no limit.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t max_splits);
// Implement str.split(separator) and str.rsplit(separator). REQUIRES: separator is not empty.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       std::int64_t max_splits);
std::vector<std::string_view> split_at_from_right(std::string_view text, std::string_view separator,
                                                  std::int64_t max_splits);

// Implements str.replace(). max_count: the limit of replacements; negative: no limit. Charges the memory of
// the result to the budget.
std::string replace_all(std::string_view text, std::string_view old_part, std::string_view new_part,
                        std::int64_t max_count, Budget& budget);

}  // namespace hearth::jinja
