// The merging itself, on one word: the lowest rank first, of equal ranks the leftmost. Pure, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/tokenizer/merge_table.h"

namespace hearth {

/// Merges symbols in place until no neighbours merge. O(n log n).
void bpe_merge(const MergeTable& merges, std::vector<int32_t>& symbols);

}  // namespace hearth
