// The table uses open addressing with linear probing. Two algorithms merge a word, with equal results.
// Scanning is faster for short words, and most words are short; a queue is faster for long ones.
#include "engine/tokenizer/bpe_merge.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <queue>
#include <tuple>

#include "engine/model/model_file.h"

namespace hearth {
namespace {

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t n_merges) {
  const size_t n_entries = std::bit_ceil(2 * n_merges + 2);
  entries_.resize(n_entries);
  shift_ = 64 - std::countr_zero(n_entries);
}

size_t MergeTable::entry_of(uint64_t pair) const {
  // First the shift mixes the left symbol into the right one, then the multiplication spreads the result over
  // the top bits.
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  pair ^= pair >> 29;
  return static_cast<size_t>((pair * kGolden) >> shift_);
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = pair_of(left, right);
  size_t at = entry_of(pair);
  while (entries_[at].pair != kEmpty && entries_[at].pair != pair) at = (at + 1) & (entries_.size() - 1);
  if (entries_[at].pair == kEmpty) entries_[at] = {pair, merge};
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  size_t at = entry_of(pair);
  while (entries_[at].pair != pair) {
    if (entries_[at].pair == kEmpty) return {};
    at = (at + 1) & (entries_.size() - 1);
  }
  return entries_[at].merge;
}

namespace {

// Maximum number of symbols in a word that is merged by scanning all its pairs once per merge. Up to this
// length, the pairs take at most 512 bytes, and scanning costs less than maintaining a queue.
constexpr size_t kShortWord = 64;

void merge_short(const MergeTable& merges, std::vector<int32_t>& symbols) {
  std::array<MergeTable::Merge, kShortWord> of_pair;  // [i]: symbols i and i + 1
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) of_pair[i] = merges.find(symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (of_pair[i].rank < of_pair[best].rank) best = i;
    }
    if (of_pair[best].rank == MergeTable::kNoRank) break;
    symbols[best] = of_pair[best].result;
    --n;
    for (size_t i = best + 1; i < n; ++i) symbols[i] = symbols[i + 1];
    for (size_t i = best + 1; i + 1 < n; ++i) of_pair[i] = of_pair[i + 1];
    if (best > 0) of_pair[best - 1] = merges.find(symbols[best - 1], symbols[best]);
    if (best + 1 < n) of_pair[best] = merges.find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(n);
}

constexpr size_t kNone = SIZE_MAX;

/// A merge that was possible when it was queued. It is stale if one of its symbols has since become part of
/// another merge.
struct Candidate {
  uint32_t rank;
  size_t left;  // index of the left symbol
  int32_t left_symbol;
  int32_t right_symbol;
  int32_t result;

  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

void merge_long(const MergeTable& merges, std::vector<int32_t>& symbols) {
  constexpr int32_t kGone = -1;  // merged into the symbol before it
  const size_t n = symbols.size();
  std::vector<size_t> next(n);
  std::vector<size_t> previous(n);
  for (size_t i = 0; i < n; ++i) {
    next[i] = i + 1 < n ? i + 1 : kNone;
    previous[i] = i > 0 ? i - 1 : kNone;
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](size_t left) {
    if (left == kNone || next[left] == kNone) return;
    const MergeTable::Merge merge = merges.find(symbols[left], symbols[next[left]]);
    if (merge.rank == MergeTable::kNoRank) return;
    queue.push({merge.rank, left, symbols[left], symbols[next[left]], merge.result});
  };
  for (size_t i = 0; i < n; ++i) consider(i);

  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const size_t right = next[top.left];
    if (symbols[top.left] != top.left_symbol || right == kNone || symbols[right] != top.right_symbol)
      continue;
    symbols[top.left] = top.result;
    symbols[right] = kGone;
    next[top.left] = next[right];
    if (next[right] != kNone) previous[next[right]] = top.left;
    consider(previous[top.left]);
    consider(top.left);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), kGone), symbols.end());
}

}  // namespace

MergeSides merge_sides(const std::string& file, size_t i, std::string_view merge) {
  // In some files, symbols contain plain spaces. The left side may then begin with a space that is not the
  // separator.
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == merge.size()) {
    throw ModelFileError(file + ": tokenizer.ggml.merges[" + std::to_string(i) + "] is '" +
                         std::string(merge.substr(0, 80)) +
                         "', expected two pieces with a space between them; the file is damaged");
  }
  return {merge.substr(0, space), merge.substr(space + 1)};
}

void bpe_merge(const MergeTable& merges, std::vector<int32_t>& symbols) {
  if (symbols.size() <= kShortWord) {
    merge_short(merges, symbols);
  } else {
    merge_long(merges, symbols);
  }
}

}  // namespace hearth
