// Extends a sequence by the tokens chosen from a step's logits, and pushes them to its client.
//
// One row of logits gives one token. A constraint or a limit on thinking may force further tokens, which need
// no logits. If the step also computed draft tokens, the row of a draft token gives the token after it,
// provided that this draft token and all earlier ones equal the chosen tokens.
//
// Owned by PieceResults; engine thread only. It changes only the sequence and its stream. The caller updates
// the KV cache, slots and totals; ChosenTokens contains the number of draft tokens that were right.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/generation/request_sampler.h"
#include "engine/serving/sequence.h"

namespace hearth {

/// The tokens that a step's logits have added to a sequence.
struct ChosenTokens {
  int n_tokens = 0;  // tokens appended to the sequence, including forced ones
  // Number of leading draft tokens that equal the chosen tokens. The step's keys and values for them are
  // valid.
  int n_accepted = 0;
  std::optional<SequenceEnd> end = {};  // absent: the sequence goes on
};

class TokenChooser {
 public:
  explicit TokenChooser(int n_vocab);

  /// Chooses the token after the sequence's last one, then the token after each draft token that turns out to
  /// be right. Appends them to sequence.tokens, pushes a TokenEvent for each, and adds to
  /// sequence.draft_counts. Stops at the end of the sequence, at the first token that was not drafted, and
  /// when the client has cancelled. logits: [n_drafted + 1, n_vocab], the rows of the sequence's last token
  /// and of the first n_drafted tokens of sequence.drafts. REQUIRES: all tokens of the sequence are computed;
  /// fewer than max_tokens are generated.
  ChosenTokens choose(Sequence& sequence, int n_drafted, std::span<const float> logits);

 private:
  std::optional<SequenceEnd> extend(Sequence& sequence, std::span<const float> row);
  bool append(Sequence& sequence, int32_t token, std::span<const float> row);
  bool append_forced(Sequence& sequence);
  static std::span<const int32_t> next_of_ending(Sequence& sequence);
  std::optional<SequenceEnd> extend_by_ending(Sequence& sequence, std::span<const float> row);
  std::optional<SequenceEnd> append_ending(Sequence& sequence);

  const size_t n_vocab_;
  RequestSampler sampler_;
  std::vector<int32_t> top_ids_;  // scratch of add_logprobs
};

}  // namespace hearth
