// Sequences run alone, then together in random steps: a model that keeps its promise gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/serving/batch.h"

namespace hearth::test {

/// Runs sequences of these lengths, one in each slot, alone and then together: every step takes none to a few
/// of each one's next tokens, dealt in random order. Returns how many rows of logits were not the sequence's
/// own to the bit. REQUIRES: KV blocks for as many sequences of the longest length.
size_t rows_changed_by_mixing(ForwardModel& model, const std::vector<int>& lengths, uint32_t seed);

}  // namespace hearth::test
