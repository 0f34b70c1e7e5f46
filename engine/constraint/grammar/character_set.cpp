#include "engine/constraint/grammar/character_set.h"

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

}  // namespace hearth
