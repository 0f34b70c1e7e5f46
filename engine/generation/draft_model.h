// A second, smaller model that drafts tokens for the main model (Leviathan et al. 2023; Chen et al. 2023).
//
// It samples as DraftSampler does, and drafts for all sequences together, one token for each at a time.
//
// The draft model has its own KV cache. Each slot of the engine owns a fixed part of it, which holds the last
// text computed for that slot. A prefix that is already cached is not computed again: rejected draft tokens
// are cut off, and the next turn of a conversation computes only its new tokens. So callers need not report
// that a sequence has ended.
//
// Owned by Speculation; engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/generation/draft_sampler.h"
#include "engine/step/batch.h"
#include "engine/step/fixed_blocks.h"

namespace hearth {

struct Sequence;

class DraftModel {
 public:
  /// model: must outlive this object, and nothing else may run it. n_slots, n_vocab: as in the engine; the
  /// two models must have the same vocabulary, except for padding tokens. context_tokens: the maximum length
  /// of a sequence, in tokens. Throws std::invalid_argument if the model has too little memory for the slots,
  /// or recurrent layers: their states would have to be copied before each draft.
  DraftModel(ForwardModel& model, int n_slots, int n_vocab, int context_tokens);

  void bind_thread() { model_.bind_thread(); }

  /// The number of missing tokens: how many of the sequence's tokens this model must compute before it can
  /// draft the first token; at least 1. Returns nullopt if no draft is possible: the text is too long for
  /// this model or contains tokens that its vocabulary lacks.
  std::optional<int> n_missing(const Sequence& sequence, int slot) const;
  /// The maximum number of missing tokens that draft() can compute together with the first draft token. If
  /// more are missing, call read() first.
  int most_missing() const { return most_missing_; }
  /// Computes the first n of the missing tokens. REQUIRES: 0 < n <= most_read(); n is less than the number of
  /// missing tokens.
  void read(const Sequence& sequence, int slot, int n);
  int most_read() const { return blocks_.max_step(); }

  /// Drafts for all jobs. A draft may be shorter than n_wanted, for example if the model chooses an end
  /// token. Returns the number of tokens and the duration of each step of the draft model. REQUIRES: each
  /// slot occurs at most once; n_wanted >= 1; at most most_missing() tokens are missing in each slot.
  std::span<const DraftPassTime> draft(std::span<const DraftJob> jobs);

 private:
  int n_shared(const Sequence& sequence, int slot) const;
  void cut(int slot, int n_tokens);
  void append(int slot, int32_t token);
  bool sample(Drafting& drafting, std::span<const float> row);

  ForwardModel& model_;
  const StepLimits limits_;
  const int context_tokens_;
  const int most_missing_;
  DraftSampler sampler_;
  Batch batch_;
  FixedBlocks blocks_;
  std::vector<std::vector<int32_t>> texts_;  // [n_slots] tokens whose keys and values are cached
  // [n_slots] The greatest length that the slot's text has had since it was last empty.
  std::vector<int> n_reached_;
  std::vector<DraftPassTime> passes_;  // results of the last draft()
};

}  // namespace hearth
