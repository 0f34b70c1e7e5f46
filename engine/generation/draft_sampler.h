// Chooses drafted tokens from the logits of a model that guesses: by the sampling parameters, the constraint
// and the random numbers that the engine will use for the model's own tokens. So a draft equals the model's
// own choice more often than if the most likely token were always drafted.
//
// The draft model (draft_model.h) and the model's own layer (nextn_drafter.h) use it. Engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/generation/request_sampler.h"
#include "engine/sampling/sampler.h"

namespace hearth {

struct Sequence;

/// A sequence to draft for, and the vector that receives its draft.
struct DraftJob {
  const Sequence* sequence = nullptr;
  int slot = 0;
  int n_wanted = 0;                       // tokens to draft
  std::vector<int32_t>* draft = nullptr;  // out: replaced by at most n_wanted tokens
};

/// The number of tokens and the duration of one pass of the model that drafts.
struct DraftPassTime {
  int n_tokens = 0;
  double seconds = 0;
};

/// A job while it runs, with its own sampler and constraint state. Both begin as copies of the sequence's,
/// and change with each drafted token.
struct Drafting {
  explicit Drafting(const DraftJob& job);

  DraftJob job;
  SamplerState sampler_state;
  std::optional<ConstraintState> constraint;
  bool done = false;
};

class DraftSampler {
 public:
  explicit DraftSampler(int n_vocab) : n_vocab_(n_vocab), sampler_(n_vocab) {}

  /// Appends the next token to the job's draft. text: the sequence's tokens and the draft so far; row: the
  /// logits after this text. There may be fewer or more than n_vocab of them, because tokens that only one of
  /// the two models has are never drafted. Returns false if no token is appended, because the sequence may
  /// end here.
  bool append(Drafting& drafting, std::span<const int32_t> text, std::span<const float> row);

 private:
  std::span<const float> as_wide(std::span<const float> row);

  const int n_vocab_;  // vocabulary size of the engine's model
  RequestSampler sampler_;
  std::vector<float> wide_;  // [n_vocab] scratch of as_wide()
};

}  // namespace hearth
