// Reports the result of counting activity, for people.
#pragma once

#include <string>

#include "profiler/activity/count.h"

namespace hearth {

/// A few lines: what was counted and, layer by layer, how many neurons are active, how many of them are
/// active for the next token too, and how much of all activity the hottest quarter has. Of mixtures: how evenly experts are
/// used, how many are used again, and how many a step of several tokens reads.
std::string count_text(const CountResult& result, const std::filesystem::path& file);

/// The last lines of count_text(): what the file holds.
std::string activity_text(const Activity& activity, const std::filesystem::path& file);

/// The share of a layer's activations that its hottest `share` of neurons has.
double hottest_share(const ActivityCounts& counts, int layer, double share);

}  // namespace hearth
