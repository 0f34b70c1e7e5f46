// Perplexity over windows; sums in double.
#include "profiler/bench/perplexity.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace hearth {
namespace {

/// -log p(token) under the softmax of logits.
double negative_log_likelihood(std::span<const float> logits, int32_t token) {
  const double peak = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - peak);
  // Subtract the logit from the peak before adding log(sum). If log(sum) were added to a large peak first,
  // rounding would drop digits of log(sum).
  return std::log(sum) + (peak - logits[static_cast<size_t>(token)]);
}

}  // namespace

WindowScore score_window(SequenceRun& run, std::span<const int32_t> window, int32_t bos, int chunk) {
  std::vector<int32_t> text(window.begin(), window.end());
  if (bos >= 0) text[0] = bos;
  run.clear();
  WindowScore score;
  // The logits of a token predict the next token. So the window's last token is not computed.
  run.score(std::span(text).first(text.size() - 1), text.size() / 2, chunk,
            [&](size_t i, std::span<const float> logits) {
              const double nll = negative_log_likelihood(logits, text[i + 1]);
              score.sum += nll;
              score.squares += nll * nll;
              ++score.n_scored;
            });
  return score;
}

PerplexityResult measure_perplexity(
    ForwardModel& model, std::span<const int32_t> tokens, int n_context, int32_t bos,
    const std::function<void(const PerplexityResult&, int n_windows)>& progress, int chunk) {
  const int most = model.limits().max_tokens, step = chunk > 0 ? std::min(chunk, most) : most;
  const size_t window = static_cast<size_t>(n_context);
  const size_t n_windows = tokens.size() / window;
  if (n_windows == 0) {
    throw std::invalid_argument("the text has " + std::to_string(tokens.size()) +
                                " tokens, fewer than one window of " + std::to_string(n_context) +
                                "; give a longer text or a smaller --window.");
  }
  SequenceRun run(model);
  PerplexityResult result;
  double sum = 0, squares = 0;
  for (size_t w = 0; w < n_windows; ++w) {
    const WindowScore score = score_window(run, tokens.subspan(w * window, window), bos, step);
    sum += score.sum;
    squares += score.squares;
    result.n_scored += score.n_scored;
    result.n_windows = static_cast<int>(w + 1);
    const double n = static_cast<double>(result.n_scored);
    const double mean = sum / n;
    const double variance = n > 1 ? std::max(0.0, squares / n - mean * mean) / (n - 1) : 0.0;
    result.perplexity = std::exp(mean);
    result.standard_error = std::sqrt(variance) * result.perplexity;
    if (progress) progress(result, static_cast<int>(n_windows));
  }
  return result;
}

}  // namespace hearth
