// Text by code point, as Python's str sees it: length, position, white space, letter case, printability.
// Text is UTF-8 throughout; a byte that is not part of a valid sequence counts as one code point, U+FFFD.
// Case covers Latin, Greek and Cyrillic, which is what chat templates touch; other scripts pass unchanged.
// Pure functions, any thread.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

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
// The sharp s becomes two letters, hence append.
void append_upper(std::string& text, char32_t c);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
// str.title(): a letter is large when the one before it is not a letter.
std::string title(std::string_view text);

enum class Side { left, right, both };
// str.strip(), lstrip(), rstrip(): without `chars` white space goes, else any of its code points.
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view chars);

}  // namespace hearth::jinja
