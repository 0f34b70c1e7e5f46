// Builds the metric families of prometheus-cpp, with one call per metric or value.
#pragma once

#include <prometheus/metric_family.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/serving/histogram.h"

namespace hearth {

using MetricLabels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

class MetricFamilies {
 public:
  /// Begin a family, to which later calls of value() add values. The names of counters end with _total.
  MetricFamilies& counter(std::string_view name, std::string_view help) {
    return begin(name, help, prometheus::MetricType::Counter);
  }
  MetricFamilies& gauge(std::string_view name, std::string_view help) {
    return begin(name, help, prometheus::MetricType::Gauge);
  }
  MetricFamilies& histogram(std::string_view name, std::string_view help) {
    return begin(name, help, prometheus::MetricType::Histogram);
  }

  /// Add a value to the current family. The number is for counters and gauges, the Histogram for histograms.
  MetricFamilies& value(double value, MetricLabels labels = {});
  MetricFamilies& value(const Histogram& histogram, MetricLabels labels = {});

  /// Returns all families that have values, in order.
  std::vector<prometheus::MetricFamily> take();

 private:
  MetricFamilies& begin(std::string_view name, std::string_view help, prometheus::MetricType type);
  prometheus::ClientMetric& add(MetricLabels labels);

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace hearth
