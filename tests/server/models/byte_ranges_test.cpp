// Sets of bytes, compared with the plain form: one flag for each byte.
#include "server/models/byte_ranges.h"

#include <random>
#include <vector>

#include "tests/support/catch.h"

using namespace hearth;

TEST_CASE("byte ranges: added ranges are present, and adjacent ones are merged") {
  ByteRanges ranges;
  ranges.add({10, 20});
  ranges.add({30, 40});
  CHECK(ranges.total() == 20);
  CHECK(ranges.prefix() == 0);
  ranges.add({20, 30});
  CHECK(ranges.list() == std::vector<ByteRange>{{10, 40}});
  ranges.add({0, 10});
  CHECK(ranges.prefix() == 40);
  ranges.add({5, 5});
  ranges.add({9, 3});
  CHECK(ranges.list() == std::vector<ByteRange>{{0, 40}});
  CHECK(ranges.holds_all(40));
  CHECK_FALSE(ranges.holds_all(41));
}

TEST_CASE("byte ranges: gaps are found in order and in pieces") {
  ByteRanges ranges;
  CHECK(ranges.first_gap(0, 100, 30) == ByteRange{0, 30});
  CHECK(ranges.first_gap(90, 100, 30) == ByteRange{90, 100});
  ranges.add({0, 10});
  ranges.add({15, 100});
  CHECK(ranges.first_gap(0, 100, 30) == ByteRange{10, 15});
  CHECK(ranges.first_gap(12, 100, 2) == ByteRange{12, 14});
  CHECK(ranges.first_gap(15, 100, 30) == std::nullopt);
  ranges.add({10, 15});
  CHECK(ranges.first_gap(0, 100, 30) == std::nullopt);
  CHECK(ranges.first_gap(0, 0, 30) == std::nullopt);
}

TEST_CASE("byte ranges: any additions match a flag for each byte") {
  constexpr size_t kSize = 64;
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    ByteRanges ranges;
    std::vector<bool> there(kSize, false);
    for (int n = 0; n < 20; ++n) {
      const uint64_t begin = random() % kSize, end = begin + random() % (kSize + 1 - begin);
      ranges.add({begin, end});
      for (uint64_t i = begin; i < end; ++i) there[i] = true;
      uint64_t total = 0, prefix = 0;
      for (size_t i = 0; i < kSize; ++i) total += there[i];
      while (prefix < kSize && there[prefix]) ++prefix;
      REQUIRE(ranges.total() == total);
      REQUIRE(ranges.prefix() == prefix);
      const uint64_t from = random() % kSize, most = 1 + random() % 10;
      uint64_t first = from;
      while (first < kSize && there[first]) ++first;
      uint64_t last = first;
      while (last < kSize && !there[last] && last - first < most) ++last;
      const std::optional<ByteRange> gap = ranges.first_gap(from, kSize, most);
      REQUIRE(gap.has_value() == (first < kSize));
      if (gap) REQUIRE(*gap == ByteRange{first, last});
    }
    uint64_t before = 0;
    for (const ByteRange& range : ranges.list()) {
      REQUIRE(range.begin < range.end);
      REQUIRE((before == 0 || range.begin > before));
      before = range.end;
    }
  }
}
