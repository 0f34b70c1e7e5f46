// Converts prompts to tokens, checks their lengths, and creates the engine's sequences.
#include "server/api/request/prompt_tokens.h"

#include <algorithm>
#include <variant>

#include "server/json/api_error.h"

namespace hearth {
namespace {

/// Returns the token that replaces an empty prompt. Throws RequestError if the model has none.
int32_t start_token(const Tokenizer& tokenizer) {
  const std::vector<int32_t> end_of_text = tokenizer.encode("<|endoftext|>", false, true);
  if (end_of_text.size() == 1 && tokenizer.is_control(end_of_text.front())) return end_of_text.front();
  if (tokenizer.bos() >= 0) return tokenizer.bos();
  if (tokenizer.eos() >= 0) return tokenizer.eos();
  refuse_param("prompt",
               "'prompt' is empty, and this model has no token to start a text with; send some text.");
}

/// Whether the first token is a begin token that the tokenizer added, and is not written in the text.
bool adds_begin(const Tokenizer& tokenizer, const std::string& text, const std::vector<int32_t>& tokens) {
  if (tokens.empty() || tokenizer.bos() < 0 || tokens.front() != tokenizer.bos()) return false;
  const std::vector<int32_t> plain = tokenizer.encode(text, false, true);
  return plain.size() < tokens.size() && (plain.empty() || plain.front() != tokenizer.bos());
}

PreparedPrompt prepare_text(const std::string& text, bool add_special_tokens, const Tokenizer& tokenizer) {
  PreparedPrompt prompt;
  prompt.tokens = tokenizer.encode(text, add_special_tokens, true);
  prompt.text = text;
  prompt.starts_text = text.empty();
  if (prompt.tokens.empty()) prompt.tokens.push_back(start_token(tokenizer));
  if (text.empty()) {
    prompt.n_hidden = static_cast<int>(prompt.tokens.size());
  } else if (add_special_tokens && adds_begin(tokenizer, text, prompt.tokens)) {
    prompt.n_hidden = 1;
  }
  return prompt;
}

PreparedPrompt prepare_ids(const std::vector<int32_t>& ids, const Tokenizer& tokenizer) {
  PreparedPrompt prompt;
  prompt.tokens = ids;
  prompt.text = tokenizer.decode(ids, true);
  return prompt;
}

[[noreturn]] void refuse_length(std::string_view param, const std::string& asked, int context_tokens) {
  refuse_param(param,
               "This model's maximum context length is " + std::to_string(context_tokens) +
                   " tokens. However, " + asked + " Please shorten the prompt.",
               "context_length_exceeded");
}

}  // namespace

size_t longest_token_bytes(const Tokenizer& tokenizer) {
  size_t longest = 4;  // a character without a token, of at most 4 bytes, becomes one unknown token
  std::string bytes;
  for (int32_t token = 0; token < tokenizer.n_vocab(); ++token) {
    bytes.clear();
    tokenizer.append_bytes(token, true, bytes);
    longest = std::max(longest, bytes.size());
  }
  return longest;
}

void refuse_hopeless(std::string_view text, size_t longest_token_bytes, int context_tokens,
                     std::string_view param) {
  const size_t least_tokens = text.size() / longest_token_bytes;
  if (least_tokens <= static_cast<size_t>(context_tokens)) return;
  refuse_length(param,
                "your prompt of " + std::to_string(text.size()) + " bytes has at least " +
                    std::to_string(least_tokens) + " tokens.",
                context_tokens);
}

PreparedPrompt prepare_prompt(const Prompt& prompt, bool add_special_tokens, const Tokenizer& tokenizer) {
  if (const std::string* text = std::get_if<std::string>(&prompt)) {
    return prepare_text(*text, add_special_tokens, tokenizer);
  }
  return prepare_ids(std::get<std::vector<int32_t>>(prompt), tokenizer);
}

PreparedPrompt prepare_chat_prompt(std::string_view rendered, bool opens_answer, const Tokenizer& tokenizer) {
  PreparedPrompt prompt;
  prompt.tokens = tokenizer.encode(rendered, false, true);
  if (prompt.tokens.empty()) {
    refuse_param("messages",
                 "The chat template makes an empty prompt of 'messages'; send a message with text.");
  }
  prompt.starts_text = opens_answer;
  return prompt;
}

int decide_max_tokens(const LengthRule& rule, size_t n_prompt, int context_tokens) {
  const int64_t left = context_tokens - static_cast<int64_t>(n_prompt);
  const int64_t asked = rule.asked.value_or(rule.default_tokens > 0 ? rule.default_tokens : context_tokens);
  if (left < std::min<int64_t>(asked, 1)) {
    refuse_length(
        rule.prompt_param,
        "your prompt has " + std::to_string(n_prompt) + " tokens, which leaves no room for an answer.",
        context_tokens);
  }
  return static_cast<int>(std::min(asked, left));
}

void truncate_prompt(PreparedPrompt& prompt, int64_t keep, const LengthRule& rule, int context_tokens,
                     const Tokenizer& tokenizer) {
  if (keep < 0) {
    const int64_t asked = rule.asked.value_or(rule.default_tokens > 0 ? rule.default_tokens : context_tokens);
    keep = std::max<int64_t>(context_tokens - (asked < context_tokens ? asked : context_tokens / 4), 1);
  }
  if (prompt.tokens.size() <= static_cast<size_t>(keep)) return;
  prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.end() - keep);
  prompt.n_hidden = 0;
  if (!prompt.text.empty()) prompt.text = tokenizer.decode(prompt.tokens, true);
}

std::vector<int> message_starts(std::span<const int32_t> tokens, const Tokenizer& tokenizer) {
  std::vector<int> starts;
  const auto ends_message = [&](size_t i) {
    return std::ranges::binary_search(tokenizer.end_tokens(), tokens[i]);
  };
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (!tokenizer.is_control(tokens[i]) || ends_message(i)) continue;
    if (ends_message(i - 1) || (i > 1 && ends_message(i - 2))) starts.push_back(static_cast<int>(i));
  }
  return starts;
}

std::vector<int> ends_of_prefixes(std::vector<int> message_starts) {
  if (message_starts.size() > 3) message_starts.erase(message_starts.begin() + 1, message_starts.end() - 2);
  return message_starts;
}

SequenceRequest make_sequence(const SequenceTemplate& common, const PreparedPrompt& prompt, int max_tokens,
                              uint64_t seed, const Tokenizer& tokenizer) {
  const GenerationFields& generation = *common.generation;
  SequenceRequest sequence;
  sequence.prompt = prompt.tokens;
  sequence.prefix_ends = ends_of_prefixes(message_starts(prompt.tokens, tokenizer));
  sequence.max_tokens = max_tokens;
  sequence.sampling = generation.sampling;
  sequence.sampling.seed = seed;
  if (!generation.ignore_eos) sequence.end_tokens = tokenizer.end_tokens();
  sequence.end_tokens.insert(sequence.end_tokens.end(), generation.stop_token_ids.begin(),
                             generation.stop_token_ids.end());
  sequence.suppressed_tokens = tokenizer.suppressed_tokens();
  sequence.constraint = common.constraint;
  sequence.thinking = common.thinking;
  sequence.min_tokens = generation.min_tokens;
  sequence.n_top_logprobs = common.n_top_logprobs;
  sequence.prompt_logprobs = common.prompt_logprobs;
  return sequence;
}

}  // namespace hearth
