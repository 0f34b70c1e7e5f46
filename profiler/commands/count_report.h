// Reports the result of counting activity, for people.
#pragma once

#include <string>

#include "profiler/activity/count.h"

namespace hearth {

/// A few lines about the counts and, layer by layer, how many neurons are active, how many of these are
/// active for the next token too, and how much of all activity the hottest quarter has. For mixtures: how
/// evenly experts are used, how many are used again, and how many a step of several tokens reads.
std::string count_text(const CountResult& result, const std::filesystem::path& file);

/// The last lines of count_text(), about the file's contents.
std::string activity_text(const Activity& activity, const std::filesystem::path& file);

/// The share of a layer's activations that belongs to the hottest `share` of its neurons.
double hottest_share(const ActivityCounts& counts, int layer, double share);

}  // namespace hearth
