// What counts of a mixture's experts say: how unevenly they are used, and what a cache of the hottest would catch.
//
// For the texts of count and the page of report. Pure functions; any thread.
#pragma once

#include <array>
#include <vector>

#include "engine/activity/activity_counts.h"

namespace hearth {

/// The shares of a layer's choices that go to each expert [n_experts], the hottest first; empty if the layer has no experts
/// or nothing was counted.
std::vector<double> sorted_choice_shares(const ActivityCounts& counts, int layer);

/// The share of all layers' choices that goes to the `n_hottest` hottest experts of each layer.
double choices_caught(const ActivityCounts& counts, int n_hottest);

/// The mean over layers with experts. Of experts_read(): by `size` tokens that follow one another, or by such of different
/// texts.
double mean_kept_share(const ActivityCounts& counts);
double mean_experts_read(const ActivityCounts& counts, int size);
double mean_experts_read_by_others(const ActivityCounts& counts, int size);

/// Sizes of caches that are told of, as shares of a layer's experts, and how many experts those are, at least 1.
inline constexpr std::array<double, 4> kCacheShares = {0.125, 0.25, 0.5, 0.75};
int cached_experts(const ActivityCounts& counts, double share);

}  // namespace hearth
