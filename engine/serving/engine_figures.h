// Totals of the engine's work since its start, for monitoring (server/metrics). Totals only grow.
//
// The engine thread updates its own copy and publishes it after each step, so that readers never wait for a
// step.
#pragma once

#include <array>
#include <cstdint>

#include "engine/serving/histogram.h"
#include "engine/serving/request.h"
#include "engine/step/model_figures.h"

namespace hearth {

/// The prefix cache on disk (disk_prefixes.h); zeros if there is none.
struct DiskFigures {
  uint64_t bytes = 0;            // of all files in the folder, as last seen
  uint64_t n_written_bytes = 0;  // total
  uint64_t n_read_tokens = 0;    // total of prompt tokens that came from disk
};

struct EngineFigures {
  static constexpr std::array<double, 16> kStepSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                                          0.15,  0.25,   0.5,   1,    2.5,   5,    10,    60};
  // Bounds from OpenTelemetry's conventions for generative servers, plus longer times, because home machines
  // are slower.
  static constexpr std::array<double, 18> kFirstToken = {0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                                         0.75,  1,    2.5,  5,    7.5,  10,   30,  60,   300};
  static constexpr std::array<double, 15> kPerToken = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                                       0.15,  0.2,    0.3,   0.4,  0.5,   1,    2.5};
  static constexpr std::array<double, 12> kStepTokens = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};

  Histogram decode_step_seconds{kStepSeconds};  // steps without prompt tokens
  Histogram prompt_step_seconds{kStepSeconds};  // steps with prompt tokens
  Histogram step_sequences{kStepTokens};
  Histogram step_tokens{kStepTokens};
  // Time of all steps, split by stage.
  double schedule_seconds = 0;  // drafts, promises of KV blocks, the batch
  double model_seconds = 0;     // the forward pass
  double choose_seconds = 0;    // sampling, constraints, events for clients

  // Per sequence.
  Histogram queue_seconds{kFirstToken};        // time from acceptance to admission to a slot
  Histogram first_token_seconds{kFirstToken};  // time from acceptance to the first token
  Histogram seconds_per_token{kPerToken};      // for each sequence: the mean time per token after the first
  std::array<uint64_t, kFinishReasons> n_finished{};  // by FinishReason
  uint64_t n_admitted = 0;
  uint64_t n_prefix_hits = 0;  // admitted sequences that took prompt tokens from the prefix cache

  // Current KV memory, in tokens: the size of the pool, the part that sequences use, and the part that only
  // the prefix cache holds.
  int64_t kv_tokens = 0, kv_used_tokens = 0, kv_cached_tokens = 0;

  DiskFigures disk;
  ModelFigures model;
};

}  // namespace hearth
