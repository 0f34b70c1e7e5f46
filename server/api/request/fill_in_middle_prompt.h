// Fill-in-the-middle: builds a prompt with which a model generates the missing text between a prefix and a
// suffix.
//
// Called on the HTTP thread, for completions with `suffix` and for /infill.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "server/api/request/prompt_tokens.h"

namespace hearth {

struct FimFile {
  std::string name;
  std::string text;
};

struct FimText {
  std::string prefix, suffix;       // texts before and after the gap
  std::string begun;                // beginning of the missing text, which the model continues
  std::vector<FimFile> files = {};  // other files of the project
  // Put the suffix before the prefix even if the model supports both orders.
  bool suffix_first = false;
};

/// Throws RequestError (400) about `param` if the model has no fill-in-the-middle tokens.
void require_fim(const Tokenizer& tokenizer, std::string_view param);

/// Returns the prompt: files, prefix, suffix, and the token after which the missing text follows. Names of
/// special tokens in the texts stay plain text. REQUIRES: require_fim() did not throw; `files` is empty or
/// the model has a token for files.
PreparedPrompt prepare_fim_prompt(const FimText& text, const Tokenizer& tokenizer);

/// Adds the model's fill-in-the-middle tokens to the tokens that end the answer, unless the request ignores
/// end tokens. Throws RequestError if the prompt is to be truncated, because truncation would remove its
/// first token.
void end_at_fim_tokens(GenerationFields& generation, const Tokenizer& tokenizer);

}  // namespace hearth
