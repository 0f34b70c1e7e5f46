// How often neurons that were chosen for the GPU are the ones that text needs which they were not chosen by.
//
// Pure functions of counts; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/activity/activity_profile.h"
#include "profiler/report/report_data.h"

namespace hearth {

/// Of all that `needed` counts, the share whose neuron is among the first n[layer] of order[layer]. 0 where
/// nothing was needed.
double hit_rate(const ActivityProfile& needed, const std::vector<std::vector<int32_t>>& order,
                const std::vector<int64_t>& n);

/// Which layers may have hot neurons: those whose attention the GPU has.
using LayerMask = std::vector<bool>;

/// How many neurons of each of these layers are among the n most active of them all; of equally active ones
/// those of the first layers.
std::vector<int64_t> most_active(const ActivityProfile& counted, int64_t n, const LayerMask& layers);

/// n in all, as many of each of these layers as of the others, or one more.
std::vector<int64_t> even(int64_t n, const LayerMask& layers);

/// Neurons of each layer that a plan has on the GPU, for good or nearly always, and the layers that it has
/// there.
struct PlannedHot {
  std::vector<int64_t> n;
  LayerMask layers;
};

/// Placements of as many neurons as planned, compared: by the plan; and in the layers that the plan has on
/// the GPU, so that attention takes the same bytes: the most active, as many of each layer, at random.
/// planned nullopt: a quarter of all neurons are compared, in all layers, without a plan. All neurons of a
/// model have the same bytes. REQUIRES: shapes that agree; some planned neurons.
ReportHits compare_placements(const ActivityProfile& counted, const ActivityProfile& needed,
                              const std::optional<PlannedHot>& planned);

}  // namespace hearth
