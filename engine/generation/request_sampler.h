// Chooses the next token of a text by a request's sampling parameters, constraint and end tokens.
//
// TokenChooser applies it to the main model's logits, and DraftModel to the draft model's, so a draft token
// is chosen by the same rules as the token that it guesses. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/constraint/constraint.h"
#include "engine/sampling/sampler.h"
#include "engine/serving/request.h"

namespace hearth {

/// A text to continue, with the sampler and constraint states after its tokens.
struct GrowingText {
  std::span<const int32_t> tokens;  // the prompt, then the generated tokens
  int n_prompt = 0;
  // State after the generated tokens; absent if there is no constraint.
  std::optional<ConstraintState>& constraint;
  SamplerState& sampler_state;  // after the generated tokens
};

/// Whether this token ends an answer to the request.
bool is_end_token(const SequenceRequest& request, int32_t token);

class RequestSampler {
 public:
  explicit RequestSampler(int n_vocab) : sampler_(n_vocab) {}

  /// Chooses the token that follows the text; it may be an end token. Changes the text's sampler state, but
  /// not its constraint state: the caller must make the constraint accept the token. logits: [n_vocab], raw.
  /// Throws ConstraintError if the constraint can parse the text in too many ways.
  SampleResult choose(const SequenceRequest& request, const GrowingText& text, std::span<const float> logits);

 private:
  const TokenMask* allowed_tokens(const SequenceRequest& request, std::optional<ConstraintState>& constraint);
  std::span<const int32_t> banned_tokens(const SequenceRequest& request, bool may_end);

  Sampler sampler_;
  TokenMask allowed_;            // scratch of allowed_tokens
  std::vector<int32_t> banned_;  // scratch of banned_tokens
};

}  // namespace hearth
