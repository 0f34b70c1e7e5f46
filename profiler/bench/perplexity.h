// Measures the perplexity of a text as llama.cpp defines it, so that figures of the two programs can be
// compared.
//
// The text's tokens are cut into windows of n_context tokens that do not overlap; an incomplete last window
// is dropped. In each window, every token of the second half is predicted from all tokens before it in the
// window; the first half only provides context. If the model expects a begin token, that token replaces the
// window's first token.
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

/// The score of one window: the sum of -log p over the scored tokens, where p is the probability of a token.
struct WindowScore {
  int64_t n_scored = 0;
  double sum = 0;
  double squares = 0;
};

/// Scores one window [n_context]. If bos is not -1, it replaces the window's first token.
WindowScore score_window(SequenceRun& run, std::span<const int32_t> window, int32_t bos, int chunk);

/// Measures the perplexity of the text `tokens`. Calls `progress` after each window with the result so far
/// and the total number of windows. bos: the begin token, or -1 if windows keep their own first token. chunk:
/// the maximum number of tokens per step, or 0 for the model's limit; the result does not depend on `chunk`.
/// Throws std::invalid_argument if the text has fewer than n_context tokens. REQUIRES: n_context >= 4 and
/// within the model's KV memory.
PerplexityResult measure_perplexity(
    ForwardModel& model, std::span<const int32_t> tokens, int n_context, int32_t bos,
    const std::function<void(const PerplexityResult&, int n_windows)>& progress, int chunk = 0);

}  // namespace hearth
