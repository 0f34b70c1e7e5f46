// The report as one self-contained HTML page: no scripts, nothing from the network, light and dark, and below
// every chart its numbers as a table. Its charts are here too, each a whole <svg> element. Pure text.
#pragma once

#include <string>

#include "profiler/report/report_data.h"

namespace hearth {

/// Bounds of the heat map's colours: a neuron active for more than kHeat[i] of the tokens and not more than
/// kHeat[i - 1] has class "heat i"; the last class never fires.
inline constexpr double kHeat[] = {0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0};
inline constexpr int kHeatClasses = 8;

/// Layers by neurons, a layer's most active first. REQUIRES: activity.
std::string activity_map(const ReportData& data);

/// Share of activations against share of neurons: of the whole model, and of its layers on average. With
/// PowerInfer's measured point. REQUIRES: activity.
std::string activity_curve(const ReportData& data);

/// The share of activations that the most active `share` of neurons make up, of the whole model.
double share_of_activations(const ReportData& data, double share);

/// What of each layer the GPU has. REQUIRES: layers.
std::string placement_map(const ReportData& data);

/// Hit rates against the share of neurons that are chosen. REQUIRES: hits.
std::string hits_chart(const ReportData& data);

/// Recall and proposed neurons, layer by layer. REQUIRES: predictors.
std::string predictor_chart(const ReportData& data);

/// Pure text. Parts that data does not have are left out.
std::string report_page(const ReportData& data);

}  // namespace hearth
