// See the header.
#include "server/models/byte_ranges.h"

#include <algorithm>

namespace hearth {

void ByteRanges::add(ByteRange range) {
  if (range.begin >= range.end) return;
  auto at = ranges_.upper_bound(range.begin);
  if (at != ranges_.begin() && std::prev(at)->second >= range.begin) --at;
  while (at != ranges_.end() && at->first <= range.end) {  // merge all ranges that it overlaps or touches
    range.begin = std::min(range.begin, at->first);
    range.end = std::max(range.end, at->second);
    at = ranges_.erase(at);
  }
  ranges_.emplace(range.begin, range.end);
}

uint64_t ByteRanges::total() const {
  uint64_t sum = 0;
  for (const auto& [begin, end] : ranges_) sum += end - begin;
  return sum;
}

uint64_t ByteRanges::prefix() const {
  return ranges_.empty() || ranges_.begin()->first > 0 ? 0 : ranges_.begin()->second;
}

std::vector<ByteRange> ByteRanges::list() const {
  std::vector<ByteRange> list;
  for (const auto& [begin, end] : ranges_) list.push_back({begin, end});
  return list;
}

std::optional<ByteRange> ByteRanges::first_gap(uint64_t from, uint64_t size, uint64_t most) const {
  uint64_t begin = from;
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin() && std::prev(next)->second > begin) begin = std::prev(next)->second;
  // Ranges do not touch, so `begin` is missing unless it is the end of the file.
  if (begin >= size || most == 0) return std::nullopt;
  uint64_t end = next == ranges_.end() ? size : std::min(size, next->first);
  end = std::min(end, begin + most);
  return ByteRange{begin, end};
}

}  // namespace hearth
