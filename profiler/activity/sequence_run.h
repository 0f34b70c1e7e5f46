// Runs one sequence straight through a model, without a queue or slots. All of the profiler's measurements
// use it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/step/batch.h"
#include "engine/step/fixed_blocks.h"

namespace hearth {

/// Feeds tokens of a single sequence to a model. The model must outlive it. One thread.
class SequenceRun {
 public:
  explicit SequenceRun(ForwardModel& model);

  /// Appends tokens in steps of at most `chunk`. Returns the last token's logits [n_vocab], valid until the
  /// next call. If activity is counted, a call with several tokens counts as a prompt, and a call with a
  /// single token as generated text (Batch::prompt_rows). REQUIRES: tokens is not empty; chunk >= 1; the
  /// sequence fits the model's KV blocks.
  std::span<const float> feed(std::span<const int32_t> tokens, int chunk);

  /// Like feed(), but calls `row` with (index into tokens, logits [n_vocab]) for every token whose index is
  /// at least first_row.
  template <typename Row>
  void score(std::span<const int32_t> tokens, size_t first_row, int chunk, Row row);

  /// Forgets the sequence. The next feed() or score() starts at position 0.
  void clear() { n_fed_ = 0; }
  /// Makes the next feed() or score() start at this position, as if `position` tokens had been fed before.
  /// Only for measuring and warming up, because the keys and values of the skipped positions are zeros or
  /// belong to earlier sequences.
  void skip_to(int32_t position) {
    n_fed_ = position;
    model_.restore_states(/*slot=*/0, /*snapshot=*/-1, position);
  }

 private:
  enum class Text { kGenerated, kPrompt, kScored };
  std::span<const float> step(std::span<const int32_t> tokens, size_t n_logits, Text text);

  ForwardModel& model_;
  StepLimits limits_;
  FixedBlocks blocks_;
  Batch batch_;
  int32_t n_fed_ = 0;
};

template <typename Row>
void SequenceRun::score(std::span<const int32_t> tokens, size_t first_row, int chunk, Row row) {
  const size_t n_vocab = static_cast<size_t>(limits_.n_vocab);
  chunk = std::min(chunk, blocks_.max_step());
  for (size_t begin = 0; begin < tokens.size();) {
    // Tokens before first_row run in steps of `chunk` tokens. The later steps may be smaller, because the
    // model's buffer must hold the logits of all their tokens.
    const bool scored = begin >= first_row;
    size_t n = std::min(static_cast<size_t>(scored ? std::min(chunk, limits_.max_logit_rows) : chunk),
                        tokens.size() - begin);
    if (!scored) n = std::min(n, first_row - begin);
    const std::span<const float> logits = step(tokens.subspan(begin, n), scored ? n : 0, Text::kScored);
    for (size_t i = 0; scored && i < n; ++i) row(begin + i, logits.subspan(i * n_vocab, n_vocab));
    begin += n;
  }
}

}  // namespace hearth
