// String literals of the template language: escapes read, and values written as Python's repr() writes them.
// Pure functions, any thread.
#pragma once
#include <string>
#include <string_view>

namespace hearth::jinja {

// The value of what stands between the quotes. Python's escapes; an unknown one keeps its backslash. Throws
// Failure.
std::string unescape(std::string_view inner);

// repr(str): quoted, single quotes preferred, unprintable characters escaped.
std::string quote(std::string_view text);

}  // namespace hearth::jinja
