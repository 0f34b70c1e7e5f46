// Statistics from counts of a mixture's experts: how unevenly they are used, and what share of the router's
// choices a cache of the hottest experts would serve.
//
// Used for the output of `count` and the HTML page of `report`. Pure functions; any thread.
#pragma once

#include <array>
#include <vector>

#include "engine/activity/activity_counts.h"

namespace hearth {

/// Returns each expert's share of the layer's choices [n_experts], the hottest expert first. Empty if the
/// layer has no experts or nothing was counted.
std::vector<double> sorted_choice_shares(const ActivityCounts& counts, int layer);

/// Returns the share of all choices that fall on the `n_hottest` hottest experts of each layer.
double choices_caught(const ActivityCounts& counts, int n_hottest);

/// These functions return means over the layers with experts. mean_kept_share() returns the share of a
/// token's experts that the next token also uses. mean_experts_read() returns how many experts a step reads
/// if it has `size` consecutive tokens of one text. mean_experts_read_by_others() returns how many it reads
/// if its `size` tokens come from different texts.
double mean_kept_share(const ActivityCounts& counts);
double mean_experts_read(const ActivityCounts& counts, int size);
double mean_experts_read_by_others(const ActivityCounts& counts, int size);

/// The cache sizes that reports show, as shares of a layer's experts. cached_experts() converts such a share
/// to a number of experts, at least 1.
inline constexpr std::array<double, 4> kCacheShares = {0.125, 0.25, 0.5, 0.75};
int cached_experts(const ActivityCounts& counts, double share);

}  // namespace hearth
