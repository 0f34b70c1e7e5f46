// Writes a report about counted activity, for people.
#pragma once

#include <string>

#include "profiler/activity/count.h"

namespace hearth {

/// Returns a summary of the counts, and lines with figures for each layer. The figures of a layer are the
/// share of its neurons that are active, the share of the active neurons that stay active for the next token,
/// and the share of all activity that belongs to the hottest quarter of the neurons. For mixtures, the
/// figures are instead how evenly the experts are used, how many of a token's experts the next token uses,
/// too, and how many experts a step of several tokens reads.
std::string count_text(const CountResult& result, const std::filesystem::path& file);

/// Returns the last lines of count_text(), which describe the file's contents.
std::string activity_text(const Activity& activity, const std::filesystem::path& file);

/// The share of a layer's activations that are due to the hottest `share` of its neurons.
double hottest_share(const ActivityCounts& counts, int layer, double share);

}  // namespace hearth
