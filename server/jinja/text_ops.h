// Splitting and replacing in text as Python's str does it, shared by the filters and the string methods.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/jinja/limits.h"

namespace hearth::jinja {

// Byte position of the first occurrence at or after `from`, or of the last one; npos when there is none.
// Linear time whatever the texts: std::string's own searches are quadratic at worst, which a hostile template
// could use.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from);
std::size_t find_last_text(std::string_view text, std::string_view part);

// str.splitlines(): also at \v, \f, the information separators, U+0085, U+2028 and U+2029.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
// str.split() without a separator: at white space, at most max_splits times when that is not negative.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t max_splits);
// str.split(separator) and str.rsplit(separator); separator is not empty.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       std::int64_t max_splits);
std::vector<std::string_view> split_at_from_right(std::string_view text, std::string_view separator,
                                                  std::int64_t max_splits);

// str.replace(): at most max_count times when that is not negative. Charges the memory of the result.
std::string replace_all(std::string_view text, std::string_view old_part, std::string_view new_part,
                        std::int64_t max_count, Budget& budget);

}  // namespace hearth::jinja
