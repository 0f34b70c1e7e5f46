// Splitting and replacing.
#include "server/jinja/text_ops.h"

#include <algorithm>

#include "server/jinja/unicode.h"

namespace hearth::jinja {
namespace {

bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = next_code_point(text, at);
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t max_splits) {
  std::vector<std::string_view> parts;
  text = strip(text, Side::left);
  while (!text.empty()) {
    if (max_splits >= 0 && parts.size() == static_cast<std::size_t>(max_splits)) {
      parts.push_back(text);
      break;
    }
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size(); end = at) {
      if (is_space(next_code_point(text, at))) break;
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::left);
  }
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       std::int64_t max_splits) {
  std::vector<std::string_view> parts;
  while (max_splits < 0 || parts.size() < static_cast<std::size_t>(max_splits)) {
    const std::size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_at_from_right(std::string_view text, std::string_view separator,
                                                  std::int64_t max_splits) {
  std::vector<std::string_view> parts;
  while (max_splits < 0 || parts.size() < static_cast<std::size_t>(max_splits)) {
    const std::size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::string replace_all(std::string_view text, std::string_view old_part, std::string_view new_part,
                        std::int64_t max_count, Budget& budget) {
  std::string out;
  std::size_t at = 0;
  budget.memory(text.size());
  budget.text(text.size());
  for (std::int64_t n = 0; max_count < 0 || n < max_count; ++n) {
    const std::size_t found = text.find(old_part, at);
    if (found == std::string_view::npos) break;
    budget.memory(new_part.size());
    budget.text(new_part.size());
    out.append(text, at, found - at);
    out += new_part;
    at = found + old_part.size();
    if (old_part.empty()) {  // Python puts the new part between all characters, and at both ends
      if (at == text.size()) return out;
      const std::size_t start = at;
      next_code_point(text, at);
      out.append(text, start, at - start);
    }
  }
  return out.append(text, at);
}

}  // namespace hearth::jinja
