// The bodies of llama.cpp's POST /completion and POST /infill as plain data.
//
// Parsed on the HTTP thread. Parameters that are left out have the defaults of this server's other endpoints, which /props
// tells.
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
  std::optional<int64_t> n_predict;          // >= 0; absent: all the room there is
  int n_probs = 0;                           // alternatives to tell with every token; 0: no probabilities
  bool return_tokens = false;                // answers have token ids beside texts
  std::vector<std::string> response_fields;  // only these members of the answer, as paths; empty: all
};

/// What both endpoints share; the prompt is left to them. Throws RequestError, also for parameters of llama.cpp that would
/// change the answer and are not supported here.
NativeRequest parse_native_request(const Json& body, const RequestLimits& limits);

/// The texts of an /infill body: input_prefix, input_suffix, prompt, input_extra. Throws RequestError.
FimText parse_infill_text(const Json& body, const Tokenizer& tokenizer);

}  // namespace hearth
