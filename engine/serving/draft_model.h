// A second, smaller model that drafts tokens for the first one (Leviathan et al. 2023; Chen et al. 2023).
//
// It chooses tokens as the sequence's own request says and with the random numbers that the first model's tokens will be
// drawn with, so the two agree more often than if it drafted its likeliest tokens. All sequences are drafted for together,
// token by token.
//
// Its keys and values are its own. Each slot of the engine has a fixed part of them, which holds the last text that was
// computed for the slot. A text's beginning that is there already is not computed again: tokens that were drafted and did
// not come are cut off, the next turn of a conversation computes only what is new, and nobody has to tell this class that
// a sequence has ended.
//
// Owned by Speculation; engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/sampler.h"
#include "engine/step/batch.h"
#include "engine/step/fixed_blocks.h"

namespace hearth {

struct Sequence;

class DraftModel {
 public:
  /// A sequence to draft for, and where its draft goes.
  struct Job {
    const Sequence* sequence = nullptr;
    int slot = 0;
    int n_wanted = 0;                       // tokens to draft
    std::vector<int32_t>* draft = nullptr;  // out: replaced by at most so many
  };

  /// model: must outlive this; nobody else runs it. n_slots, n_vocab: the engine's; the model's vocabulary is the same, but
  /// for tokens that only pad it. context_tokens: of one sequence. Throws std::invalid_argument if the model has too little
  /// memory for the slots.
  DraftModel(ForwardModel& model, int n_slots, int n_vocab, int context_tokens);

  void bind_thread() { model_.bind_thread(); }

  /// The tokens of the sequence that are still to be computed before the first one is drafted, at least 1. nullopt if it
  /// cannot be drafted for: its text is too long for this model, or has tokens that this one lacks.
  std::optional<int> n_missing(const Sequence& sequence, int slot) const;
  /// So many missing tokens, at most, are computed together with the first drafted ones. Where more are missing, read()
  /// comes first.
  int most_missing() const { return most_missing_; }
  /// Computes the first n of the missing tokens. REQUIRES: 0 < n <= most_read(), fewer than are missing.
  void read(const Sequence& sequence, int slot, int n);
  int most_read() const { return blocks_.max_step(); }

  /// Drafts for all jobs; stops early for a sequence whose text may end there. Returns the number of tokens of each step of
  /// the model, and how long it took. REQUIRES: each slot at most once, n_wanted >= 1, at most most_missing() tokens of it
  /// missing.
  struct PassTime {
    int n_tokens = 0;
    double seconds = 0;
  };
  std::span<const PassTime> draft(std::span<const Job> jobs);

 private:
  struct Drafting;  // a job while it runs

  int n_shared(const Sequence& sequence, int slot) const;
  void cut(int slot, int n_tokens);
  void append(int slot, int32_t token);
  std::span<const float> as_wide(std::span<const float> row);
  bool sample(Drafting& drafting, std::span<const float> row);

  ForwardModel& model_;
  const StepLimits limits_;
  const int n_vocab_;  // of the engine
  const int context_tokens_;
  const int most_missing_;
  Sampler sampler_;
  Batch batch_;
  FixedBlocks blocks_;
  std::vector<std::vector<int32_t>> texts_;  // [n_slots] the tokens whose keys and values are there
  std::vector<int> n_reached_;               // [n_slots] the most that the slot's text had since it was empty
  std::vector<float> wide_;                  // [n_vocab] scratch of as_wide()
  TokenMask allowed_;                        // scratch of sample()
  std::vector<PassTime> passes_;             // of the last draft()
};

}  // namespace hearth
