// Converts a prompt (text or token ids) to the tokens of an engine sequence, and collects facts about the
// prompt that the answer needs.
//
// Called by handlers on the HTTP thread, after parsing and before submitting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/serving/request.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/api/request/generation_fields.h"
#include "server/api/request/prompts.h"

namespace hearth {

struct PreparedPrompt {
  std::vector<int32_t> tokens;  // at least one
  std::string text;             // the text to echo; empty for chat
  int n_hidden = 0;             // number of leading tokens that are not in `text`: a begin token that the
                                // server added
  bool starts_text = false;     // true: the generated text is a new text; false: it continues the prompt's
                                // text
};

/// Tokenizes a completion's prompt. Names of special tokens in the text become those tokens. An empty text
/// becomes the model's <|endoftext|> token, as with OpenAI; in a model without that token, the begin token or
/// else the end token. Throws RequestError if the vocabulary has none of these.
PreparedPrompt prepare_prompt(const Prompt& prompt, bool add_special_tokens, const Tokenizer& tokenizer);

/// Tokenizes a rendered chat template. The text already has all special tokens, so none is added.
/// opens_answer: the text ends where the answer begins.
PreparedPrompt prepare_chat_prompt(std::string_view rendered, bool opens_answer, const Tokenizer& tokenizer);

/// The longest text, in bytes, of one token of this vocabulary.
size_t longest_token_bytes(const Tokenizer& tokenizer);

/// Throws RequestError (400, context_length_exceeded) if the text cannot fit into the context, whatever its
/// tokens are. This avoids spending seconds on tokenizing megabytes only to refuse them.
void refuse_hopeless(std::string_view text, size_t longest_token_bytes, int context_tokens,
                     std::string_view param);

/// Input for deciding the length of an answer.
struct LengthRule {
  std::optional<int64_t> asked;  // the request's max_tokens
  int default_tokens = 0;        // used if the request has no max_tokens; 0: all the room left in the context
  std::string_view prompt_param;  // "prompt" or "messages", for errors
};

/// Returns the number of tokens to generate: the requested number, but at most as many as the context has
/// room for. Larger requests are not refused, because clients that always send the same number do not know
/// that room. Throws RequestError (400, context_length_exceeded) if the prompt does not fit, or if at least
/// one token is wanted and the prompt leaves no room for it.
int decide_max_tokens(const LengthRule& rule, size_t n_prompt, int context_tokens);

/// Truncates a prompt to its last `keep` tokens. If `keep` is -1, leaves room for the requested length of the
/// answer, or for a quarter of the context if the request has none.
void truncate_prompt(PreparedPrompt& prompt, int64_t keep, const LengthRule& rule, int context_tokens,
                     const Tokenizer& tokenizer);

/// The settings shared by all sequences of a request.
struct SequenceTemplate {
  const GenerationFields* generation = nullptr;       // not null
  int n_top_logprobs = -1;                            // as in SequenceRequest
  bool prompt_logprobs = false;                       // as in SequenceRequest
  std::shared_ptr<const Constraint> constraint = {};  // as in SequenceRequest
};

/// Returns the engine's request for one choice of one prompt.
SequenceRequest make_sequence(const SequenceTemplate& common, const PreparedPrompt& prompt, int max_tokens,
                              uint64_t seed, const Tokenizer& tokenizer);

}  // namespace hearth
