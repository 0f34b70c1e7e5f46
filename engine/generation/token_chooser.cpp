// See the header.
#include "engine/generation/token_chooser.h"

#include <algorithm>
#include <utility>

#include "engine/constraint/forced_tokens.h"
#include "engine/generation/repetition.h"
#include "engine/sampling/logprobs.h"

namespace hearth {
namespace {

constexpr int kTokensPerCheck = 64;  // for repetitions; a check takes some microseconds

// Returns how many of the draft's first n_drafted tokens equal the sequence's tokens from index n_known on.
int n_confirmed(const Sequence& sequence, size_t n_known, int n_drafted) {
  const std::vector<int32_t>& drafted = sequence.drafts.tokens();
  int n = 0;
  for (size_t at = n_known; at < sequence.tokens.size() && n < n_drafted; ++at, ++n) {
    if (sequence.tokens[at] != drafted[static_cast<size_t>(n)]) break;
  }
  return n;
}

void count_drafts(Sequence& sequence, int n_drafted, int n_accepted) {
  DraftCounts& counts = sequence.draft_counts;
  counts.n_drafted += n_drafted;
  counts.n_accepted += n_accepted;
  if (!sequence.drafts.in_prediction) return;
  counts.n_predicted += n_drafted;
  counts.n_foreseen += n_accepted;
}

SequenceEnd refused_by_constraint() {
  return {
      .reason = FinishReason::kFailed,
      .error = "the constraint's mask offered a token that it then refused; this is a fault of the server"};
}

}  // namespace

TokenChooser::TokenChooser(int n_vocab) : n_vocab_(static_cast<size_t>(n_vocab)), sampler_(n_vocab) {}

ChosenTokens TokenChooser::choose(Sequence& sequence, int n_drafted, std::span<const float> logits) {
  const size_t n_known = sequence.tokens.size();
  ChosenTokens chosen;
  for (;;) {
    chosen.end =
        extend(sequence, logits.subspan(static_cast<size_t>(chosen.n_accepted) * n_vocab_, n_vocab_));
    if (chosen.end) break;
    chosen.n_accepted = n_confirmed(sequence, n_known, n_drafted);
    // The next row is valid only if the step has computed every token that the sequence has now. So stop once
    // a token was appended that was not drafted.
    const bool all_computed = sequence.tokens.size() == n_known + static_cast<size_t>(chosen.n_accepted);
    if (!all_computed || sequence.stream->cancelled(sequence.index)) break;
  }
  chosen.n_tokens = static_cast<int>(sequence.tokens.size() - n_known);
  count_drafts(sequence, n_drafted, chosen.n_accepted);
  return chosen;
}

// Appends the token that is chosen from the row, then the tokens that the constraint or the end of thinking
// forces after it. Returns how the sequence has ended, if it has.
std::optional<SequenceEnd> TokenChooser::extend(Sequence& sequence, std::span<const float> row) try {
  const SequenceRequest& request = sequence.request;
  if (!next_of_ending(sequence).empty()) return extend_by_ending(sequence, row);
  const SampleResult result = sampler_.choose(request,
                                              {.tokens = sequence.tokens,
                                               .n_prompt = sequence.n_prompt,
                                               .constraint = sequence.constraint,
                                               .sampler_state = sequence.sampler_state},
                                              row);
  if (!result.error.empty()) {
    return SequenceEnd{
        .reason = result.is_unsatisfiable ? FinishReason::kUnsatisfiable : FinishReason::kFailed,
        .error = std::string(result.error)};
  }
  if (is_end_token(request, result.token)) return SequenceEnd{.reason = FinishReason::kStop};
  if (!append(sequence, result.token, row) || !append_forced(sequence)) return refused_by_constraint();
  return append_ending(sequence);
} catch (const ConstraintError& error) {
  return SequenceEnd{.reason = FinishReason::kUnsatisfiable, .error = error.what()};
}

// Appends a token and sends it to the client. row: the logits that the token was chosen from; empty if the
// token was forced. Returns false if the constraint refuses the token.
bool TokenChooser::append(Sequence& sequence, int32_t token, std::span<const float> row) {
  TokenEvent event{.token = token, .logprob = 0.0f, .top = {}};
  const int n_top = sequence.request.n_top_logprobs;
  // This cannot fail: the sampler has already rejected rows that are not distributions.
  if (n_top >= 0 && !row.empty()) add_logprobs(row, n_top, event, top_ids_);
  if (sequence.constraint && !sequence.constraint->accept(token)) return false;
  if (sequence.thinking) sequence.thinking->accept(token);
  sequence.tokens.push_back(token);
  sequence.stream->push({.sequence = sequence.index, .what = std::move(event)});
  return true;
}

// Appends the tokens of the text that the constraint forces; the next step computes them together. Forces
// nothing if the request has log-probabilities (each token needs a row of logits) or a logit_bias (which may
// change how a text is split into tokens). In these cases, tokens are chosen one by one, from masks that
// allow only that text. A token that ends the answer is also chosen from a mask. Returns false if the
// constraint refuses one of the tokens.
bool TokenChooser::append_forced(Sequence& sequence) {
  const SequenceRequest& request = sequence.request;
  if (!sequence.constraint || request.n_top_logprobs >= 0 || !request.sampling.logit_bias.empty())
    return true;
  for (const int32_t token : forced_tokens(*sequence.constraint)) {
    if (sequence.n_generated() == request.max_tokens || is_end_token(request, token)) return true;
    if (!append(sequence, token, {})) return false;
  }
  return true;
}

// Returns the tokens that must come next because the limit on thinking is reached. Returns none if the
// constraint refuses one of them: the constraint takes precedence over the limit.
std::span<const int32_t> TokenChooser::next_of_ending(Sequence& sequence) {
  if (!sequence.thinking) return {};
  const std::span<const int32_t> ending = sequence.thinking->forced();
  if (ending.empty() || !sequence.constraint) return ending;
  ConstraintState after = *sequence.constraint;
  const bool fits = std::ranges::all_of(ending, [&](int32_t token) { return after.accept(token); });
  return fits ? ending : std::span<const int32_t>{};
}

// Appends the first token of the ending in place of a sampled one.
std::optional<SequenceEnd> TokenChooser::extend_by_ending(Sequence& sequence, std::span<const float> row) {
  const int32_t token = next_of_ending(sequence).front();
  if (is_end_token(sequence.request, token)) return SequenceEnd{.reason = FinishReason::kStop};
  if (!append(sequence, token, row)) return refused_by_constraint();
  return append_ending(sequence);
}

// Appends the tokens of the ending. If the request has log-probabilities, appends none: the next steps append
// them one by one. Returns how the sequence has ended, if it has.
std::optional<SequenceEnd> TokenChooser::append_ending(Sequence& sequence) {
  const SequenceRequest& request = sequence.request;
  for (std::span<const int32_t> ending = next_of_ending(sequence);
       !ending.empty() && request.n_top_logprobs < 0 && sequence.n_generated() < request.max_tokens;
       ending = next_of_ending(sequence)) {
    if (is_end_token(request, ending.front())) return SequenceEnd{.reason = FinishReason::kStop};
    if (!append(sequence, ending.front(), {})) return refused_by_constraint();
  }
  if (sequence.constraint && sequence.constraint->must_end())
    return SequenceEnd{.reason = FinishReason::kStop};
  if (sequence.n_generated() == request.max_tokens) return SequenceEnd{.reason = FinishReason::kLength};
  if (request.ends_if_repeating && sequence.n_generated() % kTokensPerCheck == 0 &&
      repeats_itself(std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.n_prompt))))
    return SequenceEnd{.reason = FinishReason::kRepeated};
  return std::nullopt;
}

}  // namespace hearth
