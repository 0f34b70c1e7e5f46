// Drafts with the model's own layer that predicts later tokens (ForwardModel::predict).
//
// The layer guesses one token for each sequence from the model's last step, and further ones from its own
// guesses. Its keys and values are in the sequences' KV blocks, so it drafts after the scheduler has extended
// these for the step.
//
// Owned by Speculation; engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/generation/draft_sampler.h"
#include "engine/step/batch.h"

namespace hearth {

struct Sequence;

class NextnDrafter {
 public:
  /// model: the engine's, which must outlive this object. REQUIRES: StepLimits::predicts.
  NextnDrafter(ForwardModel& model, int n_slots);

  /// Whether the layer can draft for the sequence now: exactly one of its tokens is not computed yet.
  static bool can_draft(const Sequence& sequence);

  /// How many tokens a draft can have.
  int most_tokens() const { return most_tokens_; }

  /// Drafts for all jobs. A draft may be shorter than n_wanted. tables: has the block tables of the step,
  /// with KV blocks for all tokens that the jobs want. Returns the duration of each pass, and the number of
  /// sequences in it as the number of its tokens. REQUIRES: each slot occurs at most once; 1 <= n_wanted <=
  /// most_tokens(); can_draft().
  std::span<const DraftPassTime> draft(std::span<const DraftJob> jobs, const Batch& tables);

 private:
  ForwardModel& model_;
  const size_t n_vocab_;
  const int most_tokens_;
  DraftSampler sampler_;
  Batch batch_;
  std::vector<std::vector<int32_t>> texts_;  // [n_slots] scratch: the sequence's tokens and its draft
  std::vector<DraftPassTime> passes_;        // results of the last draft()
};

}  // namespace hearth
