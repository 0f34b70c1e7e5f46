// The bodies of llama.cpp's POST /completion and POST /infill as plain data.
//
// Parsed on the HTTP thread. Absent parameters get this server's defaults, which /props reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/request/fill_in_middle_prompt.h"
#include "server/api/request/generation_fields.h"

namespace hearth {

struct NativeRequest {
  GenerationFields generation;
  std::optional<int64_t> n_predict;          // at least 0; absent: up to the end of the context
  int n_probs = 0;                           // alternatives to send with each token; 0: no probabilities
  bool return_tokens = false;                // whether answers contain token ids in addition to text
  std::vector<std::string> response_fields;  // paths of the members to send; empty: all members
};

/// Reads the parameters of both endpoints, except the prompt. Throws RequestError if a parameter is invalid,
/// or if it is unsupported and would change the answer.
NativeRequest parse_native_request(const Json& body, const RequestLimits& limits);

/// Reads the texts of an /infill body: input_prefix, input_suffix, prompt, input_extra. Throws RequestError.
FimText parse_infill_text(const Json& body, const Tokenizer& tokenizer);

}  // namespace hearth
