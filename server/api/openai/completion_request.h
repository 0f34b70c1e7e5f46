// A POST /v1/completions body as plain data.
//
// Parsed on the HTTP thread. To check it only the size of the model's vocabulary is needed.
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
  std::vector<Prompt> prompts;        // at least one; an absent prompt is one empty text
  std::optional<int64_t> max_tokens;  // >= 0; absent: 16, or what the context leaves if that is less
  int best_of = 1;                    // sequences for every prompt, >= generation.n
  bool echo = false;                  // the answer begins with the prompt
  std::optional<int> logprobs;        // 0 .. 5
  std::string suffix;                 // not empty: what comes after the completion, which fills the gap
  bool add_special_tokens = true;     // extension: the begin token before prompts that are text
};

/// Parses the body's JSON object. Throws RequestError.
CompletionRequest parse_completion_request(const Json& body, const RequestLimits& limits);

}  // namespace hearth
