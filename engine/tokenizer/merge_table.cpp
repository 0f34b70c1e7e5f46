// Open addressing with linear probing: see the header.
#include "engine/tokenizer/merge_table.h"

#include <bit>

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
  // Multiplication spreads the low id over the top bits, the fold brings the high one in.
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

}  // namespace hearth
