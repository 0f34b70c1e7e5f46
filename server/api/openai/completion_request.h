// The body of POST /v1/completions as plain data.
//
// Parsed on the HTTP thread. The checks need only the model's vocabulary size and tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/request/generation_fields.h"
#include "server/api/request/prompts.h"

namespace hearth {

struct CompletionRequest {
  GenerationFields generation;
  std::vector<Prompt> prompts;  // at least one; an absent prompt is one empty text
  // At least 0. If absent, the limit is 16 tokens, or fewer if the context has less room.
  std::optional<int64_t> max_tokens;
  int best_of = 1;              // sequences per prompt, at least generation.n
  bool echo = false;            // whether the answer begins with the prompt
  std::optional<int> logprobs;  // 0 .. 5
  std::string suffix;           // if not empty: the completion is the text between the prompt and the suffix
  bool add_special_tokens = true;  // extension: whether text prompts get a begin token
};

/// body: a JSON object. Throws RequestError.
CompletionRequest parse_completion_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
