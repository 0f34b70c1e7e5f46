// From a prompt, text or ids, to the tokens of an engine sequence, and what the answer must know about them.
//
// HTTP thread, between parsing and submitting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/serving/request.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/api/completion_request.h"
#include "server/api/generation_fields.h"

namespace hearth {

struct PreparedPrompt {
  std::vector<int32_t> tokens;  // at least one
  std::string text;             // what echo shows; empty for chat
  int n_hidden = 0;  // leading tokens that text does not show: a begin token put there by the server
  bool starts_text =
      false;  // the generated text begins a text of its own rather than continuing the prompt's
};

/// A completion's prompt. Special tokens written out in text become those tokens. An empty text is the
/// model's
/// <|endoftext|>, else its begin, else its end token, as OpenAI has it: the model starts from nothing.
/// Throws RequestError if the vocabulary has none of these.
PreparedPrompt prepare_prompt(const Prompt& prompt, bool add_special_tokens, const Tokenizer& tokenizer);

/// A rendered chat template: all special tokens are in its text, so none is added.
PreparedPrompt prepare_chat_prompt(std::string_view rendered, bool opens_answer, const Tokenizer& tokenizer);

/// The most bytes of text that one token of this vocabulary stands for.
size_t longest_token_bytes(const Tokenizer& tokenizer);

/// Throws RequestError (400, context_length_exceeded) if the text is too long for the context however it is
/// tokenised: megabytes would be worked on for seconds only to be refused then.
void refuse_hopeless(std::string_view text, size_t longest_token_bytes, int context_tokens,
                     std::string_view param);

/// How the length of an answer is decided, and which parameters to name when it cannot be.
struct LengthRule {
  std::optional<int64_t> asked;  // the request's max_tokens
  std::optional<int>
      default_tokens;             // used if not asked and the context leaves as many; absent: all it leaves
  std::string_view prompt_param;  // "prompt" or "messages"
  std::string_view asked_param = "max_tokens";  // the name `asked` came by
};

/// Tokens to generate. Throws RequestError (400, context_length_exceeded) if prompt and answer do not fit, or
/// if nothing was asked for and the prompt leaves no room for one token.
int decide_max_tokens(const LengthRule& rule, size_t n_prompt, int context_tokens);

/// What is the same for all sequences of a request.
struct SequenceTemplate {
  const GenerationFields* generation = nullptr;
  int n_top_logprobs = -1;
  bool prompt_logprobs = false;
};

/// The engine's request for one choice of one prompt.
SequenceRequest make_sequence(const SequenceTemplate& common, const PreparedPrompt& prompt, int max_tokens,
                              uint64_t seed, const Tokenizer& tokenizer);

}  // namespace hearth
