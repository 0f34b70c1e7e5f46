// A request to generate tokens or to embed texts, and its events, as plain structs of token ids: no text, no JSON.
//
// HTTP threads build a GenerationRequest and read the events of its TokenStream. The engine thread computes the
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

/// One sequence to generate, or to embed.
struct SequenceRequest {
  std::vector<int32_t> prompt;  // at least one token, every id inside the vocabulary
  int max_tokens = 16;          // >= 0; 0 only scores the prompt
  int min_tokens =
      0;  // no end token before so many others; a constraint whose text is complete ends it all the same
  SamplingParams sampling;
  std::vector<int32_t> end_tokens;  // sampling one of these finishes with kStop; the token is not emitted
  // Only texts of this language are generated, and the sequence finishes with kStop where nothing can follow. Null: any.
  std::shared_ptr<const Constraint> constraint;
  int n_top_logprobs = -1;  // -1: none; k >= 0: the chosen token's log-probability and the k most likely
  bool prompt_logprobs =
      false;  // also log-probabilities of prompt tokens 1..n-1 (OpenAI's echo with logprobs)
  // Tokens that the client expects in the answer; they are searched for drafts (speculation.h) and change no token.
  // Shared by the sequences of a request. Null: none.
  std::shared_ptr<const std::vector<int32_t>> prediction;
  // Set: nothing is generated. The prompt's hidden states are pooled like this, and the answer is one EmbeddingEvent.
  // REQUIRES: max_tokens is 0, no constraint, no prompt_logprobs.
  std::optional<Pooling> embedding;

  /// Whether every prompt token must be computed, so that none may come from the prefix cache: scoring needs the logits
  /// of them all. Embeddings leave the cache to prompts that come again (engine/DECISIONS.md).
  bool computes_whole_prompt() const { return prompt_logprobs || embedding.has_value(); }
};

/// One HTTP request: one or more sequences that are accepted together and answered over one stream. It counts as
/// one in the queue.
struct GenerationRequest {
  std::vector<SequenceRequest> sequences;
  uint64_t client = 0;  // whose it is: slots are shared out among clients (waiting_list.h)
  int priority = 0;     // of the requests of one client, those with a lower one come first
  /// When it is of no use any more: what has no token by then is not computed, what has some ends.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

/// Log-probabilities of consecutive prompt tokens, in order. The first event of a sequence starts with prompt
/// token 1; a prompt may come in several events.
struct PromptEvent {
  std::vector<TokenEvent> tokens;
};

/// The pooled hidden state of an embedded sequence: [d_model], of length 1 (or zeros).
struct EmbeddingEvent {
  std::vector<float> values;
};

/// kUnsatisfiable: what the request bans and demands leaves no token, or its grammar is too ambiguous to go on. kTimedOut:
/// the request's deadline has passed.
enum class FinishReason { kStop, kLength, kCancelled, kFailed, kUnsatisfiable, kTimedOut };
inline constexpr size_t kFinishReasons = 6;

/// Tokens that were computed before it was known that they come (speculation.h).
struct DraftCounts {
  int n_drafted = 0, n_accepted = 0;    // accepted: those that came
  int n_predicted = 0, n_foreseen = 0;  // of both, those that SequenceRequest::prediction proposed
};

/// Always the last event of a sequence.
struct FinishedEvent {
  FinishReason reason = FinishReason::kStop;
  int n_prompt_tokens = 0;
  int n_cached_tokens = 0;     // prompt tokens taken from the prefix cache
  int n_generated_tokens = 0;  // tokens that were emitted; the end token is not
  DraftCounts drafts = {};
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  std::string error;  // one sentence if kUnsatisfiable or kFailed
};

struct StreamEvent {
  int sequence = 0;  // index into GenerationRequest::sequences
  std::variant<PromptEvent, TokenEvent, EmbeddingEvent, FinishedEvent> what;
};

/// Why a request was not accepted. A value and no exception, because refusals are expected.
enum class Refusal { kQueueFull, kContextExceeded, kStopping };
std::string_view refusal_name(Refusal refusal);

}  // namespace hearth
