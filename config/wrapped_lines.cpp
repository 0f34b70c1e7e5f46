// Implements wrapped_lines().
#include "config/wrapped_lines.h"

#include <algorithm>
#include <utility>

namespace hearth {

std::vector<std::string> wrapped_lines(std::string text, size_t width) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    size_t end = text.rfind(' ', width);
    if (end == std::string::npos) end = std::min(text.find(' '), text.size());
    lines.push_back(text.substr(0, end));
    text.erase(0, std::min(text.size(), end + 1));
  }
  if (!text.empty() || lines.empty()) lines.push_back(std::move(text));
  return lines;
}

}  // namespace hearth
