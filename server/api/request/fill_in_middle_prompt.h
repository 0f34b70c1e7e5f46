// Fill-in-the-middle: the prompt that makes a model fill a gap in a text, and the tokens that end the
// filling.
//
// Called by handlers on the HTTP thread, for `suffix` of completions and for /infill.
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
  std::string prefix, suffix;       // before and after the gap
  std::string begun;                // beginning of the filling, which the model continues
  std::vector<FimFile> files = {};  // other files of the project
  bool suffix_first = false;        // put the suffix before the prefix, even if the model supports both
                                    // orders
};

/// Throws RequestError (400) about `param` if this model has no tokens for filling in.
void require_fim(const Tokenizer& tokenizer, std::string_view param);

/// Returns the prompt: files, prefix, suffix, and the token before the middle. Names of special tokens in the
/// texts stay plain text. REQUIRES: require_fim() did not throw; `files` is empty, or the model has a token
/// for files.
PreparedPrompt prepare_fim_prompt(const FimText& text, const Tokenizer& tokenizer);

/// Adds the fill-in-middle tokens to the tokens that end the answer, unless the request ignores end tokens.
/// Throws RequestError if the prompt is to be truncated, which would cut off its first token.
void end_at_fim_tokens(GenerationFields& generation, const Tokenizer& tokenizer);

}  // namespace hearth
