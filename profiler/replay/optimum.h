// The most choices of a trace's experts that any cache can catch (Belady 1966, with bypass: a missed expert
// need not be brought).
//
// Between two uses, an expert either stays in the cache, and its next use is a hit, or not. So the most hits
// are the most such intervals that fit the cache at any time, and dropping the one that ends last whenever
// there are too many is optimal. The first contents are free too: they are intervals up to the first use.
// O(n log n) for n choices. A pure function; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/activity/expert_trace.h"

namespace hearth {

struct OptimalHits {
  /// [n_tokens, layers] experts of a token in a layer that are in the cache
  std::vector<uint16_t> hits;
  uint64_t n_brought = 0;  // copies of experts for a later use
  /// Whether all layers' experts have equal bytes. If not, the cache is assumed to hold as many experts as if
  /// all had the smallest size, so `hits` is an upper bound that may be out of reach.
  bool exact = true;
};

/// The hits of the tokens from first_token on, with a cache of budget_bytes.
OptimalHits optimal_hits(const ExpertTrace& trace, uint64_t first_token, double budget_bytes);

}  // namespace hearth
