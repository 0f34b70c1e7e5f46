// Chooses the next token of a text as a request says: by its sampling parameters, its constraint and its end
// tokens.
//
// TokenChooser samples the main model's logits with it and DraftModel those of the draft model, so a draft is
// chosen by the same rules as the token that it guesses. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/constraint/constraint.h"
#include "engine/sampling/sampler.h"
#include "engine/serving/request.h"

namespace hearth {

/// A text to continue, and the states that its tokens so far have led to.
struct GrowingText {
  std::span<const int32_t> tokens;  // the prompt, then the generated tokens
  int n_prompt = 0;
  std::optional<ConstraintState>& constraint;  // after the generated tokens; absent: nothing is constrained
  SamplerState& sampler_state;                 // after the generated tokens
};

/// Whether this token ends an answer to the request.
bool is_end_token(const SequenceRequest& request, int32_t token);

class RequestSampler {
 public:
  explicit RequestSampler(int n_vocab) : sampler_(n_vocab) {}

  /// Chooses the token after the text's last; it may be an end token. Changes the text's sampler state, but
  /// not its constraint, which must accept the token next. logits: [n_vocab], raw. Throws ConstraintError if
  /// the text can be read in too many ways.
  SampleResult choose(const SequenceRequest& request, const GrowingText& text, std::span<const float> logits);

 private:
  const TokenMask* allowed_tokens(const SequenceRequest& request, std::optional<ConstraintState>& constraint);

  Sampler sampler_;
  TokenMask allowed_;  // scratch of allowed_tokens
};

}  // namespace hearth
