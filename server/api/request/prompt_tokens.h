// Converts a prompt (text or token ids) to the tokens of a sequence, and determines facts about the prompt
// that the answer needs.
//
// Called on the HTTP thread, between parsing and submitting a request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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
  std::string text;             // the text to echo; empty for chats
  // Number of leading tokens that are not part of `text`, because the server added them (a begin token).
  int n_hidden = 0;
  // Whether the generated text is a new text, which does not continue the prompt's text.
  bool starts_text = false;
};

/// Tokenizes the prompt of a completion. Names of special tokens in the text become these tokens. An empty
/// text becomes one token: the model's <|endoftext|> token, as in OpenAI's API. If the model has no such
/// token, the begin token is used, or the end token if there is no begin token. Throws RequestError if the
/// vocabulary has none of these three tokens.
PreparedPrompt prepare_prompt(const Prompt& prompt, bool add_special_tokens, const Tokenizer& tokenizer);

/// Tokenizes the output of a chat template, which contains all special tokens. opens_answer: whether the
/// output ends where the answer begins.
PreparedPrompt prepare_chat_prompt(std::string_view rendered, bool opens_answer, const Tokenizer& tokenizer);

/// Returns the maximum number of bytes of text for one token of the vocabulary.
size_t longest_token_bytes(const Tokenizer& tokenizer);

/// Throws RequestError (400, context_length_exceeded) if the text cannot fit into the context, even if all
/// its tokens have the maximum length. This check is much faster than tokenizing megabytes.
void refuse_hopeless(std::string_view text, size_t longest_token_bytes, int context_tokens,
                     std::string_view param);

/// The input of decide_max_tokens().
struct LengthRule {
  std::optional<int64_t> asked;   // the request's max_tokens
  int default_tokens = 0;         // used if `asked` is absent; 0: up to the end of the context
  std::string_view prompt_param;  // "prompt" or "messages", for error messages
};

/// Returns the number of tokens to generate: the requested number, or fewer if the context has less room. A
/// larger number is not refused, because clients may send a fixed number for all models. Throws RequestError
/// (400, context_length_exceeded) if the prompt does not fit into the context, or if at least one token is
/// requested and there is no room for it.
int decide_max_tokens(const LengthRule& rule, size_t n_prompt, int context_tokens);

/// Truncates a prompt to its last `keep` tokens. keep = -1: leaves room for the requested length of the
/// answer, or for a quarter of the context if no length is requested.
void truncate_prompt(PreparedPrompt& prompt, int64_t keep, const LengthRule& rule, int context_tokens,
                     const Tokenizer& tokenizer);

/// Returns the numbers of tokens before each message of a chat but the first, ascending. A message begins
/// with a control token that follows an end token, perhaps with one token between them (a newline). In most
/// chats, the last message is the beginning of the answer. Empty if the prompt has no such messages.
std::vector<int> message_starts(std::span<const int32_t> tokens, const Tokenizer& tokenizer);
/// Returns those of the second message, the last but one and the last.
std::vector<int> ends_of_prefixes(std::vector<int> message_starts);

/// The settings that all sequences of a request share.
struct SequenceTemplate {
  const GenerationFields* generation = nullptr;         // not null
  int n_top_logprobs = -1;                              // as in SequenceRequest
  bool prompt_logprobs = false;                         // as in SequenceRequest
  std::shared_ptr<const Constraint> constraint = {};    // as in SequenceRequest
  std::shared_ptr<const ThinkingBudget> thinking = {};  // as in SequenceRequest
};

/// Returns the request to the engine for one choice of one prompt.
SequenceRequest make_sequence(const SequenceTemplate& common, const PreparedPrompt& prompt, int max_tokens,
                              uint64_t seed, const Tokenizer& tokenizer);

}  // namespace hearth
