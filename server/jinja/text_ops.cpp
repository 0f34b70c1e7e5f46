// Splitting and replacing.
#include "server/jinja/text_ops.h"

#include <string.h>  // memmem, which <cstring> need not declare

#include <algorithm>

#include "server/jinja/unicode.h"

namespace hearth::jinja {
namespace {

bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (!found) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_last_text(std::string_view text, std::string_view part) {
  if (part.size() < 2 || part.size() > text.size()) return text.rfind(part);
  // The last occurrence is the first one of the two texts reversed.
  const std::string backward(text.rbegin(), text.rend());
  const std::size_t at = find_text(backward, std::string(part.rbegin(), part.rend()), 0);
  return at == std::string_view::npos ? at : text.size() - at - part.size();
}

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
    const std::size_t at = find_text(text, separator, 0);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_at_from_right(std::string_view text, std::string_view separator,
                                                  std::int64_t max_splits) {
  const std::string backward(text.rbegin(), text.rend());
  const std::string backward_separator(separator.rbegin(), separator.rend());
  std::vector<std::string_view> parts = split_at(backward, backward_separator, max_splits);
  // A part that lies [start, end) from the back is [size - end, size - start) from the front.
  for (std::string_view& part : parts) {
    const std::size_t start = static_cast<std::size_t>(part.data() - backward.data());
    part = text.substr(text.size() - start - part.size(), part.size());
  }
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
    const std::size_t found = find_text(text, old_part, at);
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
