// Statistics from counts of a mixture's experts: how unevenly they are used, and what share of choices a
// cache of the hottest would catch.
//
// Used for the output of `count` and the page of `report`. Pure functions; any thread.
#pragma once

#include <array>
#include <vector>

#include "engine/activity/activity_counts.h"

namespace hearth {

/// Each expert's share of the layer's choices [n_experts], the hottest first. Empty if the layer has no
/// experts or nothing was counted.
std::vector<double> sorted_choice_shares(const ActivityCounts& counts, int layer);

/// The share of all layers' choices that goes to the `n_hottest` hottest experts of each layer.
double choices_caught(const ActivityCounts& counts, int n_hottest);

/// Means over layers with experts. The last two are means of experts_read() for `size` consecutive tokens,
/// and for `size` tokens of different texts.
double mean_kept_share(const ActivityCounts& counts);
double mean_experts_read(const ActivityCounts& counts, int size);
double mean_experts_read_by_others(const ActivityCounts& counts, int size);

/// Sizes of the caches that reports show, as shares of a layer's experts; and the number of experts that such
/// a share is, at least 1.
inline constexpr std::array<double, 4> kCacheShares = {0.125, 0.25, 0.5, 0.75};
int cached_experts(const ActivityCounts& counts, double share);

}  // namespace hearth
