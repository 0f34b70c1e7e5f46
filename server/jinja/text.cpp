// Implements decoding of UTF-8, character classes and letter case; then searching, splitting and replacing.
#include "server/jinja/text.h"

#include <string.h>  // for memmem, which <cstring> need not declare

#include <algorithm>
#include <array>

#include "kernels/base/utf8.h"

namespace hearth::jinja {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Range {
  char32_t first, last;
};

// The code points for which str.isprintable() is false, except unassigned ones: controls, format characters,
// separators other than the space, surrogates and private use (general categories Cc, Cf, Zs, Zl, Zp, Cs and
// Co).
constexpr std::array<Range, 19> kUnprintable = {{
    {0x0000, 0x001F}, {0x007F, 0x00A0}, {0x00AD, 0x00AD},   {0x0600, 0x0605},    {0x061C, 0x061C},
    {0x06DD, 0x06DD}, {0x070F, 0x070F}, {0x1680, 0x1680},   {0x180E, 0x180E},    {0x2000, 0x200F},
    {0x2028, 0x202F}, {0x205F, 0x206F}, {0x3000, 0x3000},   {0xD800, 0xF8FF},    {0xFEFF, 0xFEFF},
    {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0x1D173, 0x1D17A}, {0xE0000, 0x10FFFF},
}};

bool in(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

// Whether c is in a range in which capital and small letters alternate and capitals have even code points.
bool alternates_even(char32_t c) {
  return in(c, 0x100, 0x12F) || in(c, 0x132, 0x137) || in(c, 0x14A, 0x177) || in(c, 0x1DE, 0x1EF) ||
         in(c, 0x1F8, 0x21F) || in(c, 0x222, 0x233) || in(c, 0x3D8, 0x3EF) || in(c, 0x460, 0x481) ||
         in(c, 0x48A, 0x4BF) || in(c, 0x4D0, 0x52F) || in(c, 0x1E00, 0x1E95) || in(c, 0x1EA0, 0x1EFF);
}
// Like alternates_even(), but capitals have odd code points.
bool alternates_odd(char32_t c) {
  return in(c, 0x139, 0x148) || in(c, 0x179, 0x17E) || in(c, 0x1CD, 0x1DC) || in(c, 0x4C1, 0x4CE);
}

char32_t to_upper_simple(char32_t c) {
  if (c < 0x80) return in(c, 'a', 'z') ? c - 32 : c;
  if (alternates_even(c)) return c & ~char32_t{1};
  if (alternates_odd(c)) return c % 2 ? c : c - 1;
  if (c == 0xB5) return 0x39C;  // micro sign
  if (c == 0xFF) return 0x178;
  if (c == 0x131) return 'I';
  if (c == 0x17F) return 'S';
  if ((in(c, 0xE0, 0xFE) && c != 0xF7) || (in(c, 0x3B1, 0x3CB) && c != 0x3C2) || in(c, 0x430, 0x44F))
    return c - 32;
  if (c == 0x3C2) return 0x3A3;  // final sigma
  if (c == 0x3AC) return 0x386;
  if (in(c, 0x3AD, 0x3AF)) return c - 37;
  if (c == 0x3CC) return 0x38C;
  if (in(c, 0x3CD, 0x3CE)) return c - 63;
  if (in(c, 0x450, 0x45F)) return c - 80;
  if (in(c, 0x561, 0x586)) return c - 48;    // Armenian
  if (in(c, 0xFF41, 0xFF5A)) return c - 32;  // full-width Latin
  return c;
}

template <typename Map>
std::string map_text(std::string_view text, Map map) {
  std::string mapped;
  mapped.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) map(mapped, next_code_point(text, at));
  return mapped;
}

template <typename Wanted>
std::string_view strip_if(std::string_view text, Side side, Wanted goes) {
  std::size_t first = 0;
  std::size_t last = text.size();
  while (side != Side::right && first < last) {
    std::size_t next = first;
    if (!goes(next_code_point(text, next))) break;
    first = next;
  }
  while (side != Side::left && last > first) {
    std::size_t start = last - 1;
    while (start > first && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    std::size_t after = start;
    const char32_t c = next_code_point(text, after);
    if (after != last || !goes(c)) break;
    last = start;
  }
  return text.substr(first, last - first);
}

bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at++);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 && lead <= 0xF4  ? 3
                   : lead >= 0xE0 && lead < 0xF0 ? 2
                   : lead >= 0xC2 && lead < 0xE0 ? 1
                                                 : 0;
  if (more == 0) return kReplacement;
  char32_t c = lead & (0x3F >> more);
  for (int i = 0; i < more; ++i) {
    if (at + i >= text.size() || (byte(at + i) & 0xC0) != 0x80) return kReplacement;
    c = c << 6 | (byte(at + i) & 0x3F);
  }
  // Reject overlong forms, surrogates and numbers beyond Unicode.
  if ((more == 2 && c < 0x800) || (more == 3 && (c < 0x10000 || c > 0x10FFFF)) || in(c, 0xD800, 0xDFFF)) {
    return kReplacement;
  }
  at += more;
  return c;
}

void append_code_point(std::string& text, char32_t c) {
  if (c > 0x10FFFF || in(c, 0xD800, 0xDFFF)) c = kReplacement;
  append_utf8(c, text);
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    // A valid U+FFFD has three bytes; a U+FFFD that replaces an invalid byte has one.
    if (next_code_point(text, at) == kReplacement && at - start == 1) return false;
  }
  return true;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::size_t count_code_points(std::string_view text) {
  if (is_ascii(text)) return text.size();
  std::size_t n = 0;
  for (std::size_t at = 0; at < text.size(); ++n) next_code_point(text, at);
  return n;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < index && at < text.size(); ++i) next_code_point(text, at);
  return at;
}

bool is_space(char32_t c) {
  return in(c, 9, 13) || in(c, 28, 32) || c == 0x85 || c == 0xA0 || c == 0x1680 || in(c, 0x2000, 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  return std::none_of(kUnprintable.begin(), kUnprintable.end(),
                      [c](Range r) { return in(c, r.first, r.last); });
}

bool is_upper(char32_t c) { return to_lower(c) != c; }

bool is_lower(char32_t c) { return to_upper_simple(c) != c || c == 0xDF || c == 0x138 || c == 0x149; }

char32_t to_lower(char32_t c) {
  if (c < 0x80) return in(c, 'A', 'Z') ? c + 32 : c;
  if (c == 0x130) return c;  // lower case would need a combining dot
  if (alternates_even(c)) return c | 1;
  if (alternates_odd(c)) return c % 2 ? c + 1 : c;
  if (c == 0x178) return 0xFF;
  if (c == 0x1E9E) return 0xDF;
  if ((in(c, 0xC0, 0xDE) && c != 0xD7) || (in(c, 0x391, 0x3AB) && c != 0x3A2) || in(c, 0x410, 0x42F))
    return c + 32;
  if (c == 0x386) return 0x3AC;
  if (in(c, 0x388, 0x38A)) return c + 37;
  if (c == 0x38C) return 0x3CC;
  if (in(c, 0x38E, 0x38F)) return c + 63;
  if (in(c, 0x400, 0x40F)) return c + 80;
  if (in(c, 0x531, 0x556)) return c + 48;
  if (in(c, 0xFF21, 0xFF3A)) return c + 32;
  return c;
}

void append_upper(std::string& text, char32_t c) {
  if (c == 0xDF) {
    text += "SS";
  } else {
    append_code_point(text, to_upper_simple(c));
  }
}

std::string upper(std::string_view text) { return map_text(text, append_upper); }

std::string lower(std::string_view text) {
  return map_text(text, [](std::string& out, char32_t c) { append_code_point(out, to_lower(c)); });
}

std::string capitalize(std::string_view text) {
  return map_text(text, [is_first = true](std::string& out, char32_t c) mutable {
    if (is_first && c == 0xDF) {
      out += "Ss";
    } else {
      append_code_point(out, is_first ? to_upper_simple(c) : to_lower(c));
    }
    is_first = false;
  });
}

std::string title(std::string_view text) {
  return map_text(text, [in_word = false](std::string& out, char32_t c) mutable {
    append_code_point(out, in_word ? to_lower(c) : to_upper_simple(c));
    in_word = is_cased(c);
  });
}

std::string_view strip(std::string_view text, Side side) { return strip_if(text, side, is_space); }

std::string_view strip(std::string_view text, Side side, std::string_view chars) {
  std::u32string set;
  for (std::size_t at = 0; at < chars.size();) set += next_code_point(chars, at);
  return strip_if(text, side, [&set](char32_t c) { return set.find(c) != std::u32string::npos; });
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (!found) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_last_text(std::string_view text, std::string_view part) {
  if (part.size() < 2 || part.size() > text.size()) return text.rfind(part);
  // The last occurrence is the first occurrence when both texts are reversed.
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
  // A part at [start, end) of the reversed text is at [size - end, size - start) of `text`.
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
    if (old_part.empty()) {  // Python inserts the new part before each character and at the end
      if (at == text.size()) return out;
      const std::size_t start = at;
      next_code_point(text, at);
      out.append(text, start, at - start);
    }
  }
  return out.append(text, at);
}

}  // namespace hearth::jinja
