// The body of POST /v1/embeddings as plain data.
//
// Parsed on the HTTP thread. The checks need only the model's vocabulary size and the dimensions of its
// vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/api/request/prompts.h"
#include "server/json/json.h"

namespace hearth {

struct EmbeddingRequest {
  std::vector<Prompt> inputs;      // 1 to 2048; none is empty
  bool base64 = false;             // vectors as base64 of little-endian floats instead of arrays
  std::optional<int> dimensions;   // 1 to n_dimensions; absent: all
  bool add_special_tokens = true;  // extension: whether texts get begin and end tokens
  // Extension: keep only this many tokens at the end of each input; -1: as many as fit.
  std::optional<int64_t> n_kept_tokens;
  bool keeps_start = false;  // keep the first n_kept_tokens instead of the last, as in Ollama's API
};

/// body: a JSON object. n_dimensions: the length of the model's vectors. Throws RequestError.
EmbeddingRequest parse_embedding_request(const Json& body, const RequestLimits& limits, int n_dimensions);

}  // namespace hearth
