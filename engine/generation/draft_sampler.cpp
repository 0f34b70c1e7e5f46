// See the header.
#include "engine/generation/draft_sampler.h"

#include <algorithm>
#include <limits>

#include "engine/serving/sequence.h"

namespace hearth {

Drafting::Drafting(const DraftJob& of)
    : job(of), sampler_state(of.sequence->sampler_state), constraint(of.sequence->constraint) {
  job.draft->clear();
}

/// Returns the row, shortened or extended to the vocabulary size of the engine's model.
std::span<const float> DraftSampler::as_wide(std::span<const float> row) {
  const auto n_vocab = static_cast<size_t>(n_vocab_);
  if (row.size() >= n_vocab) return row.first(n_vocab);
  wide_.assign(n_vocab, -std::numeric_limits<float>::infinity());
  std::ranges::copy(row, wide_.begin());
  return wide_;
}

bool DraftSampler::append(Drafting& drafting, std::span<const int32_t> text, std::span<const float> row) {
  const Sequence& sequence = *drafting.job.sequence;
  try {
    const SampleResult result = sampler_.choose(sequence.request,
                                                {.tokens = text,
                                                 .n_prompt = sequence.n_prompt,
                                                 .constraint = drafting.constraint,
                                                 .sampler_state = drafting.sampler_state},
                                                as_wide(row));
    if (!result.error.empty() || is_end_token(sequence.request, result.token)) return false;
    if (drafting.constraint && !drafting.constraint->accept(result.token)) return false;
    drafting.job.draft->push_back(result.token);
    return true;
  } catch (const ConstraintError&) {
    return false;  // the engine will meet the same error and report it to the client
  }
}

}  // namespace hearth
