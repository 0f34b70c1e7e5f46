// Steps of a single sequence.
#include "profiler/activity/sequence_run.h"

#include <algorithm>
#include <cassert>

namespace hearth {

SequenceRun::SequenceRun(ForwardModel& model) : model_(model), limits_(model.limits()), blocks_(limits_, 1) {
  blocks_.set_tables(batch_);
}

std::span<const float> SequenceRun::feed(std::span<const int32_t> tokens, int chunk) {
  const size_t step_tokens = static_cast<size_t>(std::min(chunk, blocks_.max_step()));
  const Text text = tokens.size() > 1 ? Text::kPrompt : Text::kGenerated;
  std::span<const float> logits;
  for (size_t begin = 0; begin < tokens.size(); begin += step_tokens) {
    const size_t n = std::min(step_tokens, tokens.size() - begin);
    logits = step(tokens.subspan(begin, n), begin + n == tokens.size() ? 1 : 0, text);
  }
  return logits;
}

/// Runs one step, and returns the logits of the step's last n_logits tokens.
std::span<const float> SequenceRun::step(std::span<const int32_t> tokens, size_t n_logits, Text text) {
  assert(static_cast<int>(tokens.size()) <= limits_.max_tokens);
  batch_.clear();
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch_.tokens.push_back(tokens[i]);
    batch_.positions.push_back(n_fed_++);
    batch_.slots.push_back(0);
    if (text != Text::kGenerated) batch_.prompt_rows.push_back(static_cast<int32_t>(i));
    if (i + n_logits < tokens.size()) continue;
    if (text == Text::kScored) batch_.scored_rows.push_back(static_cast<int32_t>(batch_.logit_rows.size()));
    batch_.logit_rows.push_back(static_cast<int32_t>(i));
  }
  return model_.forward(batch_).logits;
}

}  // namespace hearth
