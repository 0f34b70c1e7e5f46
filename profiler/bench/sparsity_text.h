// How the FFN was run, in words, for bench and perplexity.
#pragma once

#include <string>

#include "engine/residency/sparsity.h"

namespace hearth {

/// What the FFN did, as one line for people: "exact (lossless with relu), 18.1 % of neurons active".
/// `activity` is what was counted while measuring.
std::string sparsity_text(const SparsityReport& report, const NeuronActivity& activity);

}  // namespace hearth
