// Long sentences as lines that a terminal holds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hearth {

/// Lines of at most `width` bytes, broken at spaces; a longer word has a line of its own. One line at least.
std::vector<std::string> wrapped_lines(std::string text, size_t width);

}  // namespace hearth
