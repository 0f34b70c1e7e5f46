// The set of a file's bytes that have been downloaded. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace hearth {

/// The bytes [begin, end).
struct ByteRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

/// A set of bytes. Invariant: its ranges are sorted and not empty, and do not overlap or touch.
class ByteRanges {
 public:
  /// Adds bytes, some of which may already be in the set.
  void add(ByteRange range);
  void clear() { ranges_.clear(); }

  uint64_t total() const;  // number of bytes in the set
  /// Number of bytes from the file's beginning without a gap.
  uint64_t prefix() const;
  std::vector<ByteRange> list() const;
  /// The first missing bytes of [0, size) at or after `from`, at most `most`; nullopt if none is missing.
  std::optional<ByteRange> first_gap(uint64_t from, uint64_t size, uint64_t most) const;
  bool holds_all(uint64_t size) const { return prefix() >= size; }

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin -> end
};

}  // namespace hearth
