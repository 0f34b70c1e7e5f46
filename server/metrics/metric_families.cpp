// See the header.
#include "server/metrics/metric_families.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace hearth {

MetricFamilies& MetricFamilies::begin(std::string_view name, std::string_view help,
                                      prometheus::MetricType type) {
  families_.push_back({std::string(name), std::string(help), type, {}});
  return *this;
}

prometheus::ClientMetric& MetricFamilies::add(MetricLabels labels) {
  prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
  for (const auto& [name, value] : labels) metric.label.push_back({std::string(name), std::string(value)});
  return metric;
}

MetricFamilies& MetricFamilies::value(double value, MetricLabels labels) {
  prometheus::ClientMetric& metric = add(labels);
  if (families_.back().type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return *this;
}

MetricFamilies& MetricFamilies::value(const Histogram& histogram, MetricLabels labels) {
  prometheus::ClientMetric::Histogram& to = add(labels).histogram;
  to.sample_count = histogram.n();
  to.sample_sum = histogram.sum();
  uint64_t cumulative = 0;
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    cumulative += histogram.counts()[i];
    const bool last = i == histogram.bounds().size();
    to.bucket.push_back({cumulative, last ? std::numeric_limits<double>::infinity() : histogram.bounds()[i]});
  }
  return *this;
}

std::vector<prometheus::MetricFamily> MetricFamilies::take() {
  std::erase_if(families_, [](const prometheus::MetricFamily& family) { return family.metric.empty(); });
  return std::move(families_);
}

}  // namespace hearth
