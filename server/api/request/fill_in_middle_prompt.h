// Texts with a gap: the prompt by which a model fills it, and the tokens that end the filling.
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
  std::string begun;                // how the filling begins; the model goes on with it
  std::vector<FimFile> files = {};  // others of the same project
  bool suffix_first = false;        // ask in the order suffix, prefix, also where the model knows both
};

/// Throws RequestError (400) about `param` if this model has no tokens for filling in.
void require_fim(const Tokenizer& tokenizer, std::string_view param);

/// The prompt: files, prefix, suffix, and the token after which the middle comes. Special tokens written out in the texts
/// are plain text. REQUIRES: require_fim() did not throw; files are empty, or the model has a token for them.
PreparedPrompt prepare_fim_prompt(const FimText& text, const Tokenizer& tokenizer);

/// Makes the tokens of filling in end the answer too, unless the request ignores end tokens. Throws RequestError if the
/// prompt is to be cut, which would take the token that begins it.
void end_at_fim_tokens(GenerationFields& generation, const Tokenizer& tokenizer);

}  // namespace hearth
