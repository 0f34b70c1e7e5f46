// Perplexity of a text as llama.cpp defines it, so that figures can be compared.
//
// The text's tokens are cut into windows of n_context that do not overlap; an incomplete last one is dropped.
// In each window, tokens of the second half are predicted from everything before them in the window (the
// first half only gives context). If the model wants a begin token, it replaces the window's first token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/step/batch.h"
#include "profiler/activity/sequence_run.h"

namespace hearth {

struct PerplexityResult {
  int n_windows = 0;
  int64_t n_scored = 0;  // predicted tokens
  double perplexity = 0;
  double standard_error = 0;  // standard error of the perplexity
};

/// The score of one window: the sum of -log of the probability of each scored token.
struct WindowScore {
  int64_t n_scored = 0;
  double sum = 0;
  double squares = 0;
};

/// Scores one window [n_context]; its first token is replaced by bos, unless that is -1.
WindowScore score_window(SequenceRun& run, std::span<const int32_t> window, int32_t bos, int chunk);

/// Measures a text. Calls `progress` after each window with the result so far and the total number of
/// windows. bos: -1 if windows begin with their own first token. chunk: most tokens of a step, or 0 for as
/// many as the model takes; the result does not depend on it. Throws std::invalid_argument if the text has
/// fewer than n_context tokens. REQUIRES: n_context >= 4 and within the model's KV memory.
PerplexityResult measure_perplexity(
    ForwardModel& model, std::span<const int32_t> tokens, int n_context, int32_t bos,
    const std::function<void(const PerplexityResult&, int n_windows)>& progress, int chunk = 0);

}  // namespace hearth
