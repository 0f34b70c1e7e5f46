// Breaks long sentences into lines that fit a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hearth {

/// Breaks the text at spaces into lines of at most `width` bytes. A word longer than `width` gets its own
/// line. Returns at least one line.
std::vector<std::string> wrapped_lines(std::string text, size_t width);

}  // namespace hearth
