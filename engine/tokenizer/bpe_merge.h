// The merges of a BPE vocabulary, and the merge algorithm.
//
// The table maps (left symbol, right symbol) to rank and result. It is a flat hash table, because encoding
// spends most of its time looking up pairs. It is filled at load; const and thread-safe afterward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Merge {
    uint32_t rank = kNoRank;  // lower ranks merge first; kNoRank if the pair does not merge
    int32_t result = -1;
  };

  /// REQUIRES: at most n_merges pairs are inserted.
  explicit MergeTable(size_t n_merges);
  /// If a pair is inserted twice, the first merge is kept. REQUIRES: left, right >= 0.
  void insert(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Entry {
    uint64_t pair = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;  // no pair, because symbols are not negative

  size_t entry_of(uint64_t pair) const;

  std::vector<Entry> entries_;  // power of two, at most half full
  int shift_;                   // the top 64 - shift_ bits of the hash are the entry's index
};

/// Allows a map of strings to be searched with a string_view, without creating a string.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

struct MergeSides {
  std::string_view left;
  std::string_view right;
};
/// Splits `merge`, the file's merge at index i, which has the form "LEFT RIGHT". Throws ModelFileError if a
/// side is missing.
MergeSides merge_sides(const std::string& file, size_t i, std::string_view merge);

/// Merges the symbols of one word in place until no two neighbors can merge. Merges the pair with the lowest
/// rank first; among equal ranks, the leftmost pair. O(n log n). Pure; any thread.
void bpe_merge(const MergeTable& merges, std::vector<int32_t>& symbols);

}  // namespace hearth
