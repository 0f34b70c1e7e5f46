// A POST /v1/embeddings body as plain data.
//
// Parsed on the HTTP thread. To check it only the size of the model's vocabulary and of its hidden states is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/api/request/prompts.h"
#include "server/json/json.h"

namespace hearth {

struct EmbeddingRequest {
  std::vector<Prompt> inputs;      // 1 to 2048, none of them empty
  bool base64 = false;             // vectors as base64 of little-endian floats; false: as arrays
  std::optional<int> dimensions;   // 1 .. n_dimensions; absent: all
  bool add_special_tokens = true;  // extension: the begin and end tokens of texts
  std::optional<int64_t>
      n_kept_tokens;         // extension: the last so many tokens of each input; -1: those that fit
  bool keeps_start = false;  // of a longer input, n_kept_tokens are the first, as Ollama does it
};

/// Parses the body's JSON object. n_dimensions: what the model's vectors have. Throws RequestError.
EmbeddingRequest parse_embedding_request(const Json& body, const RequestLimits& limits, int n_dimensions);

}  // namespace hearth
