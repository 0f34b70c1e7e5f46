// Writes the text of /metrics: all measurements of hearthd, in Prometheus' text format 0.0.4.
//
// Every metric is built here from snapshots when it is requested; docs/running.md lists the metrics. Their
// names are OpenTelemetry's for generative servers where these exist (gen_ai_*), otherwise hearth_*.
// prometheus-cpp writes the format.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/api/server_state.h"
#include "server/metrics/process_figures.h"
#include "server/metrics/request_counts.h"

namespace hearth {

/// An engine with metrics.
struct MeteredEngine {
  std::string model;  // the model's name
  EngineStatus status;
  EngineFigures figures;
};

struct MetricsInput {
  std::string version;
  std::string backend;  // the device that computes the model; empty while the model is loading
  ServerState::Phase phase = ServerState::Phase::kLoading;
  double load_progress = 0;
  bool healthy = false;
  std::vector<MeteredEngine>
      engines;  // the served model's engine, then the embedding model's; empty while the model is loading
  // Measured with a short text when the model is loaded; below 0 if unknown.
  double active_share = -1, bytes_per_token = -1, dense_bytes_per_token = -1;
  RequestCounts::Totals requests;
  ProcessFigures process;
};

std::string metrics_text(const MetricsInput& input);

/// The Content-Type of the text that metrics_text() returns.
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace hearth
