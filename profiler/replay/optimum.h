// Computes the maximum number of a trace's choices of experts that can be found in a cache, whatever its
// policy (Belady 1966, with bypass: a missed expert need not be brought into the cache).
//
// The next use of an expert is a hit if the expert stays in the cache for the whole interval between the two
// uses. The task is therefore to choose as many of these intervals as possible such that no more overlap at
// any time than the cache has room for. It is optimal to drop the interval that ends last whenever there are
// too many. The first contents of the cache can be chosen too; for these, an interval ends at the first use.
// O(n log n) for n choices. A pure function; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/activity/expert_trace.h"

namespace hearth {

struct OptimalHits {
  /// [n_tokens, layers]: how many of the token's experts in the layer are in the cache
  std::vector<uint16_t> hits;
  uint64_t n_brought = 0;  // copies of experts for a later use
  /// True if the experts of all layers have the same size. If false, `hits` is computed as if all had the
  /// smallest size, so it is an upper bound that no cache may reach.
  bool exact = true;
};

/// Returns OptimalHits::exact for a trace.
bool has_exact_optimum(const ExpertTrace& trace);

/// Returns the hits of the tokens from first_token on, for a cache of budget_bytes.
OptimalHits optimal_hits(const ExpertTrace& trace, uint64_t first_token, double budget_bytes);

}  // namespace hearth
