// Writes the text of /metrics: all measurements of hearthd, in Prometheus' text format 0.0.4.
//
// Every metric is built here from snapshots when it is requested; docs/running.md lists the metrics. A metric
// has OpenTelemetry's name for generative servers (gen_ai_*) if there is one, otherwise a name that begins
// with hearth_. prometheus-cpp writes the format.
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
  std::vector<MeteredEngine> engines;  // first the engine of the served model, then that of the embedding
                                       // model if there is one; empty while the model is loading
  // Share of active neurons, and bytes of weights per token with this share and with all neurons. Measured
  // with a short text when the model is loaded; below 0 if unknown.
  double active_share = -1, bytes_per_token = -1, dense_bytes_per_token = -1;
  RequestCounts::Totals requests;
  ProcessFigures process;
};

std::string metrics_text(const MetricsInput& input);

/// The Content-Type of the text that metrics_text() returns.
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace hearth
