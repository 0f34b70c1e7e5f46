// A POST /v1/completions body as plain data.
//
// Parsed on the HTTP thread. Checking it needs only the model's vocabulary size and tokenizer.
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
  std::vector<Prompt> prompts;        // at least one; if absent, one empty text
  std::optional<int64_t> max_tokens;  // >= 0; absent: 16, or fewer if the context has no room for 16
  int best_of = 1;                    // sequences per prompt, >= generation.n
  bool echo = false;                  // the answer begins with the prompt
  std::optional<int> logprobs;        // 0 .. 5
  std::string suffix;                 // if not empty: the text after the gap that the completion fills
  bool add_special_tokens = true;     // extension: adds the begin token before text prompts
};

/// Parses the body's JSON object. Throws RequestError.
CompletionRequest parse_completion_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
