// Writes a report about counted activity, for people.
#pragma once

#include <string>

#include "profiler/activity/count.h"

namespace hearth {

/// Returns a summary of the counts, and lines with figures for each layer. The figures of a layer are the
/// share of active neurons, the share of these that stay active for the next token, and the share of all
/// activity that belongs to the hottest quarter of the neurons. For mixtures they are: how evenly experts are
/// used, how many are used again by the next token, and how many experts a step of several tokens reads.
std::string count_text(const CountResult& result, const std::filesystem::path& file);

/// Returns the last lines of count_text(), which describe the file's contents.
std::string activity_text(const Activity& activity, const std::filesystem::path& file);

/// The share of a layer's activations that are due to the hottest `share` of its neurons.
double hottest_share(const ActivityCounts& counts, int layer, double share);

}  // namespace hearth
