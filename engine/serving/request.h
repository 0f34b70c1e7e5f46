// A generation request and its events, as plain structs of token ids: no text, no JSON.
//
// HTTP threads build a GenerationRequest and read the events of its TokenStream. The engine thread generates the
// tokens and pushes the events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/serving/sampling_params.h"

namespace hearth {

class Constraint;

/// One sequence to generate.
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
};

/// One HTTP request: one or more sequences that are accepted together and answered over one stream. It counts as
/// one in the queue.
struct GenerationRequest {
  std::vector<SequenceRequest> sequences;
};

/// Natural log-probabilities under the model's unmodified distribution: log-softmax of the raw logits over
/// the whole vocabulary, before bias, penalties, temperature and filters.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;
};

struct TokenEvent {
  int32_t token = 0;
  float logprob = 0.0f;           // meaningful if n_top_logprobs >= 0
  std::vector<TokenLogprob> top;  // n_top_logprobs entries, most likely first
};

/// Log-probabilities of consecutive prompt tokens, in order. The first event of a sequence starts with prompt
/// token 1; a prompt may come in several events.
struct PromptEvent {
  std::vector<TokenEvent> tokens;
};

enum class FinishReason { kStop, kLength, kCancelled, kFailed };

/// Always the last event of a sequence.
struct FinishedEvent {
  FinishReason reason = FinishReason::kStop;
  int n_prompt_tokens = 0;
  int n_cached_tokens = 0;     // prompt tokens taken from the prefix cache
  int n_generated_tokens = 0;  // tokens that were emitted; the end token is not
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  std::string error;  // one sentence if kFailed
};

struct StreamEvent {
  int sequence = 0;  // index into GenerationRequest::sequences
  std::variant<PromptEvent, TokenEvent, FinishedEvent> what;
};

/// Why a request was not accepted. A value and no exception, because refusals are expected.
enum class Refusal { kQueueFull, kContextExceeded, kStopping };
std::string_view refusal_name(Refusal refusal);

}  // namespace hearth
