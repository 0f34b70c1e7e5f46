// Which bytes of a file are there, while it is downloaded in pieces. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace hearth {

/// Bytes from begin up to, but without, end.
struct ByteRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

/// A set of bytes. Invariant: its ranges are in order, not empty, and neither overlap nor touch.
class ByteRanges {
 public:
  /// Adds bytes; some may be there already.
  void add(ByteRange range);
  void clear() { ranges_.clear(); }

  uint64_t total() const;  // how many bytes there are
  /// How many bytes there are from the file's first on without a gap.
  uint64_t prefix() const;
  std::vector<ByteRange> list() const;
  /// The first bytes of [0, size) from `from` on that are not there, at most `most` of them; nullopt: all are there.
  std::optional<ByteRange> first_gap(uint64_t from, uint64_t size, uint64_t most) const;
  bool holds_all(uint64_t size) const { return prefix() >= size; }

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin -> end
};

}  // namespace hearth
