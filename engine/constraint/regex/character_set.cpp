#include "engine/constraint/regex/character_set.h"

#include <algorithm>

namespace hearth {

CharacterSet character_set(std::vector<CharRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  CharacterSet set;
  for (const CharRange& range : ranges) {
    if (!set.empty() && range.first <= set.back().second + 1)
      set.back().second = std::max(set.back().second, range.second);
    else
      set.push_back(range);
  }
  return set;
}

CharacterSet all_characters() { return {{0, kLastCodePoint}}; }

CharacterSet complement(const CharacterSet& set) {
  CharacterSet rest;
  char32_t next = 0;
  for (const auto& [first, last] : set) {
    if (first > next) rest.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLastCodePoint) rest.emplace_back(next, kLastCodePoint);
  return rest;
}

CharacterSet intersection(const CharacterSet& a, const CharacterSet& b) {
  CharacterSet common;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const char32_t first = std::max(a[i].first, b[j].first), last = std::min(a[i].second, b[j].second);
    if (first <= last) common.emplace_back(first, last);
    if (a[i].second < b[j].second)
      ++i;
    else
      ++j;
  }
  return common;
}

bool contains(const CharacterSet& set, char32_t c) {
  return std::any_of(set.begin(), set.end(),
                     [&](const CharRange& r) { return r.first <= c && c <= r.second; });
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t c = n == 1 ? lead : lead & (0x7F >> n);
    for (size_t k = 1; k < n; ++k) c = (c << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3F);
    out += c;
    i += n;
  }
  return out;
}

std::string utf8(char32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

}  // namespace hearth
