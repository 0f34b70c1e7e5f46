// The text of /metrics: all that hearthd measures, in Prometheus' text format 0.0.4.
//
// Every metric is built here, from snapshots, when someone asks; docs/running.md lists them. Names of OpenTelemetry's
// conventions for generative servers where they have one (gen_ai_*), else hearth_*. Uses prometheus-cpp for the format.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/api/server_state.h"
#include "server/metrics/process_figures.h"
#include "server/metrics/request_counts.h"

namespace hearth {

/// An engine to tell about.
struct MeteredEngine {
  std::string model;  // its name
  EngineStatus status;
  EngineFigures figures;
};

struct MetricsInput {
  std::string version;
  std::string backend;  // what computes the model; empty while it is loaded
  ServerState::Phase phase = ServerState::Phase::kLoading;
  double load_progress = 0;
  bool healthy = false;
  std::vector<MeteredEngine>
      engines;  // none while the model is loaded; the first is the model, the second embeds
  // Of the model, from a short text when it was loaded; below 0: unknown.
  double active_share = -1, bytes_per_token = -1, dense_bytes_per_token = -1;
  RequestCounts::Totals requests;
  ProcessFigures process;
};

std::string metrics_text(const MetricsInput& input);

/// The Content-Type of that text.
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace hearth
