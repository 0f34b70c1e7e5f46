// Runs sequences alone and then together in random steps. A correct model gives equal bits in both runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/step/batch.h"

namespace hearth::test {

/// Runs sequences of these lengths, one in each slot, alone and then together: every step takes zero to a few
/// of each sequence's next tokens, in random order. Returns how many rows of logits differ from those of the
/// sequence run alone. REQUIRES: KV blocks for all sequences at the longest length.
size_t rows_changed_by_mixing(ForwardModel& model, const std::vector<int>& lengths, uint32_t seed);

}  // namespace hearth::test
