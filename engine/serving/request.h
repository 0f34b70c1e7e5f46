// A request to generate tokens or to embed texts, and the events that answer it: plain structs of token ids,
// without text or JSON.
//
// HTTP threads build a GenerationRequest and read events from its TokenStream. The engine thread computes the
// answer and pushes the events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/model/pooling.h"
#include "engine/sampling/logprobs.h"
#include "engine/sampling/sampling_params.h"

namespace hearth {

class Constraint;
struct ThinkingBudget;

/// One sequence to generate, or to embed.
struct SequenceRequest {
  std::vector<int32_t> prompt;  // at least one token, every id inside the vocabulary
  int max_tokens = 16;          // >= 0; 0 only scores the prompt
  // End tokens are forbidden until the sequence has this many generated tokens. But if the text completes the
  // constraint earlier, the sequence ends.
  int min_tokens = 0;
  SamplingParams sampling;
  // If one of these tokens is sampled, the sequence finishes with kStop, and the token is not emitted.
  std::vector<int32_t> end_tokens;
  // Tokens that are never sampled, although the model may prefer them.
  std::vector<int32_t> suppressed_tokens;
  // Whether the sequence finishes with kRepeated if its text repeats itself without end (repetition.h).
  bool ends_if_repeating = false;
  // Restricts the generated text to a language. The sequence finishes with kStop when the text cannot be
  // continued within the language. Null if there is no constraint.
  std::shared_ptr<const Constraint> constraint;
  // Limits the tokens of thinking (engine/constraint/thinking_budget.h). Null if there is no limit.
  std::shared_ptr<const ThinkingBudget> thinking;
  // -1: no log-probabilities. k >= 0: log-probabilities of the chosen token and of the k most likely tokens.
  int n_top_logprobs = -1;
  bool prompt_logprobs =
      false;  // whether to return log-probabilities of prompt tokens 1..n-1 (OpenAI's echo with logprobs)
  // Tokens that the client expects in the answer. Drafts may come from them (speculation.h), but they do not
  // change the answer. All sequences of a request share them. Null if there are none.
  std::shared_ptr<const std::vector<int32_t>> prediction;
  // Numbers of prompt tokens after which a later prompt may continue differently, such as ends of messages,
  // ascending. For models with recurrent layers, which reuse prefixes only up to such ends (state_copies.h).
  std::vector<int> prefix_ends;
  // If set, nothing is generated: the prompt's hidden states are pooled by this method, and the answer is one
  // EmbeddingEvent. REQUIRES: max_tokens is 0, no constraint, no prompt_logprobs.
  std::optional<Pooling> embedding;
  // For a pair of texts: the number of prompt tokens before the second text, including those that separate
  // the texts. 0: the prompt is one text.
  int second_text = 0;

  /// Whether every prompt token must be computed, so that none may come from the prefix cache.
  /// Log-probabilities of the prompt need the logits of all its tokens. Embeddings do not use the prefix
  /// cache, so that its memory is left for prompts that recur (engine/DECISIONS.md).
  bool computes_whole_prompt() const { return prompt_logprobs || embedding.has_value(); }
};

/// One HTTP request: one or more sequences that are accepted together and answered in one stream. It counts
/// as one request in the queue.
struct GenerationRequest {
  std::vector<SequenceRequest> sequences;
  uint64_t client = 0;  // the client's id; clients share the slots fairly (waiting_list.h)
  int priority = 0;     // among the requests of one client, lower values come first
  /// After this time the answer is useless, so waiting and running sequences of the request end (kTimedOut).
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

/// Log-probabilities of consecutive prompt tokens, in order. The first event of a sequence starts with prompt
/// token 1. One prompt may take several events.
struct PromptEvent {
  std::vector<TokenEvent> tokens;
};

/// The pooled hidden states of an embedded sequence: [d_model], a vector of length 1 (or all zeros). If the
/// model ranks pairs of texts (StepLimits::scores): the pair's scores.
struct EmbeddingEvent {
  std::vector<float> values;
};

/// kUnsatisfiable: bans and constraints allow no token, or the grammar is too ambiguous to continue.
/// kTimedOut: the request's deadline has passed. kRepeated: see SequenceRequest::ends_if_repeating.
enum class FinishReason { kStop, kLength, kCancelled, kFailed, kUnsatisfiable, kTimedOut, kRepeated };
inline constexpr size_t kFinishReasons = 7;

/// Counts of draft tokens that were computed (speculation.h).
struct DraftCounts {
  int n_drafted = 0, n_accepted = 0;    // accepted: equal to the sampled tokens
  int n_predicted = 0, n_foreseen = 0;  // the parts of these that came from SequenceRequest::prediction
};

/// Always the last event of a sequence.
struct FinishedEvent {
  FinishReason reason = FinishReason::kStop;
  int n_prompt_tokens = 0;
  int n_cached_tokens = 0;  // prompt tokens taken from the prefix cache
  /// Prompt tokens that equaled a text in the prefix cache. Those beyond n_cached_tokens were computed again,
  /// because only whole KV blocks are reused, or because a window or a recurrent state was not cached.
  int n_matched_tokens = 0;
  int n_generated_tokens = 0;  // tokens emitted; excludes the end token
  DraftCounts drafts = {};
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  std::string error;  // one sentence if `reason` is kUnsatisfiable or kFailed
};

struct StreamEvent {
  int sequence = 0;  // index into GenerationRequest::sequences
  std::variant<PromptEvent, TokenEvent, EmbeddingEvent, FinishedEvent> what;
};

/// Reasons why a request is not accepted. They are values rather than exceptions, because refusals are
/// expected.
enum class Refusal { kQueueFull, kContextExceeded, kStopping };
std::string_view refusal_name(Refusal refusal);

}  // namespace hearth
