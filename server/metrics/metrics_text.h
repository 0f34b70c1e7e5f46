// Writes the text of /metrics: all measurements of hearthd, in Prometheus' text format 0.0.4.
//
// The metrics are built from the input for each request; docs/running.md lists them. A metric has the name
// that OpenTelemetry defines for generative AI servers (gen_ai_*) if there is one, otherwise a name that
// begins with hearth_. prometheus-cpp writes the format.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "server/api/server_state.h"
#include "server/metrics/process_figures.h"
#include "server/metrics/request_counts.h"

namespace hearth {

/// An engine whose measurements are part of /metrics.
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
  // The engine of the served model, then the engine of the embedding model, if any. Empty while the model is
  // loading.
  std::vector<MeteredEngine> engines;
  // Share of active neurons; weight bytes that a token reads if only these neurons are read, and if all
  // neurons are read. Measured with a short text when the model is loaded. Negative if unknown.
  double active_share = -1, bytes_per_token = -1, dense_bytes_per_token = -1;
  // Names of the models, and whether they are loaded. Empty if the server has one model.
  std::vector<std::pair<std::string, bool>> models;
  RequestCounts::Totals requests;
  ProcessFigures process;
};

std::string metrics_text(const MetricsInput& input);

/// The Content-Type of the text that metrics_text() returns.
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace hearth
