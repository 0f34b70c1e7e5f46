// How often neurons that were chosen for the GPU are the ones that text needs which they were not chosen by.
//
// Pure functions of counts; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/activity_profile.h"
#include "profiler/report/report_data.h"

namespace hearth {

/// Of all that `needed` counts, the share whose neuron is among the first n[layer] of order[layer]. 0 where
/// nothing was needed.
double hit_rate(const ActivityProfile& needed, const std::vector<std::vector<int32_t>>& order,
                const std::vector<int64_t>& n);

/// How many neurons of each layer are among the n most active of all layers; of equally active ones those of
/// the first layers.
std::vector<int64_t> most_active_of_all(const ActivityProfile& counted, int64_t n);

/// Placements of as many neurons as `planned` has in its layers, compared: by the plan, by activity, as many
/// of each layer, at random. planned empty: a quarter of all neurons are compared, without a plan. All
/// neurons of a model have the same bytes. REQUIRES: shapes that agree.
ReportHits compare_placements(const ActivityProfile& counted, const ActivityProfile& needed,
                              const std::vector<int64_t>& planned);

}  // namespace hearth
