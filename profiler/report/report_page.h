// Renders the report as one self-contained HTML page without scripts or network access, in light and dark
// themes, with a table of numbers below every chart. Its charts are here too, each a whole <svg> element.
// Pure text.
#pragma once

#include <string>

#include "profiler/report/report_data.h"

namespace hearth {

/// Bounds of the heat map's colors. A neuron that is active for more than kHeat[i] of the tokens and at most
/// kHeat[i - 1] has the class "heat i"; neurons of the last class are never active.
inline constexpr double kHeat[] = {0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0};
inline constexpr int kHeatClasses = 8;

/// The heat map: layers by neurons, each layer's most active first. REQUIRES: activity.
std::string activity_map(const ReportData& data);

/// The share of activations against the share of neurons, for the whole model and for its layers on average,
/// with PowerInfer's measured point. REQUIRES: activity.
std::string activity_curve(const ReportData& data);

/// The share of the whole model's activations that the most active `share` of neurons has.
double share_of_activations(const ReportData& data, double share);

/// A chart of what the GPU has of each layer. REQUIRES: layers.
std::string placement_map(const ReportData& data);

/// Hit rates against the share of neurons that are chosen. REQUIRES: hits.
std::string hits_chart(const ReportData& data);

/// Recall and proposed neurons, layer by layer. REQUIRES: predictors.
std::string predictor_chart(const ReportData& data);

/// The whole page. Leaves out parts that `data` does not have.
std::string report_page(const ReportData& data);

}  // namespace hearth
