// See the header.
#include "engine/generation/request_sampler.h"

#include <algorithm>

namespace hearth {

bool is_end_token(const SequenceRequest& request, int32_t token) {
  return std::ranges::find(request.end_tokens, token) != request.end_tokens.end();
}

SampleResult RequestSampler::choose(const SequenceRequest& request, const GrowingText& text,
                                    std::span<const float> logits) {
  const bool may_end = static_cast<int>(text.tokens.size()) - text.n_prompt >= request.min_tokens;
  return sampler_.sample({.logits = logits,
                          .params = request.sampling,
                          .tokens = text.tokens,
                          .n_prompt = text.n_prompt,
                          .allowed = allowed_tokens(request, text.constraint),
                          .banned = banned_tokens(request, may_end),
                          .state = text.sampler_state});
}

// Returns the tokens that the constraint allows next, plus the end tokens if the text may end here. Null if
// there is no constraint.
const TokenMask* RequestSampler::allowed_tokens(const SequenceRequest& request,
                                                std::optional<ConstraintState>& constraint) {
  if (!constraint) return nullptr;
  const TokenMask& mask = constraint->mask();
  if (!constraint->may_end()) return &mask;
  allowed_ = mask;
  for (const int32_t token : request.end_tokens) allowed_.allow(token);
  return &allowed_;
}

std::span<const int32_t> RequestSampler::banned_tokens(const SequenceRequest& request, bool may_end) {
  if (may_end) return request.suppressed_tokens;
  banned_ = request.suppressed_tokens;
  banned_.insert(banned_.end(), request.end_tokens.begin(), request.end_tokens.end());
  return banned_;
}

}  // namespace hearth
