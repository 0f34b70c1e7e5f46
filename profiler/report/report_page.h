// Renders the report as one self-contained HTML page without scripts or network access, in light and dark
// themes, with a table of numbers below every chart. The functions for its charts are public too; each
// returns a complete <svg> element. Pure functions on text.
#pragma once

#include <string>

#include "profiler/report/report_data.h"

namespace hearth {

/// Bounds of the heat map's colors. A neuron has the class "heat i" if the share of tokens for which it is
/// active is above kHeat[i] and at most kHeat[i - 1]. Neurons of the last class are never active.
inline constexpr double kHeat[] = {0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0};
inline constexpr int kHeatClasses = 8;

/// Returns the heat map: layers by neurons, with each layer's most active neurons first. REQUIRES: `data` has
/// activity.
std::string activity_map(const ReportData& data);

/// Returns a chart of how concentrated activity is: at x, the share of all activations that the share x of
/// the neurons has, the most active neurons first. One curve is for all neurons of the model, the other is
/// the mean of its layers' curves. A dot shows PowerInfer's measurement. For a mixture, the chart is about
/// experts and their choices, without the dot. REQUIRES: `data` has activity.
std::string activity_curve(const ReportData& data);

/// Returns the share of the whole model's activations that are due to the most active `share` of neurons.
double share_of_activations(const ReportData& data, double share);

/// Returns a chart of the parts of each layer that are on the GPU. REQUIRES: `data` has layers.
std::string placement_map(const ReportData& data);

/// Returns a chart of hit rates over the share of neurons that are chosen. REQUIRES: `data` has hits.
std::string hits_chart(const ReportData& data);

/// Returns a chart of recall and proposed neurons for each layer. REQUIRES: `data` has predictors.
std::string predictor_chart(const ReportData& data);

/// Returns the whole page, without the parts that `data` does not have.
std::string report_page(const ReportData& data);

}  // namespace hearth
