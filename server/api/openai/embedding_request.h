// A POST /v1/embeddings body as plain data.
//
// Parsed on the HTTP thread. Checking it needs only the model's vocabulary size and the dimensions of its
// vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/api/request/prompts.h"
#include "server/json/json.h"

namespace hearth {

struct EmbeddingRequest {
  std::vector<Prompt> inputs;      // 1 to 2048, none of them empty
  bool base64 = false;             // true: vectors as base64 of little-endian floats; false: as arrays
  std::optional<int> dimensions;   // 1 .. n_dimensions; absent: all
  bool add_special_tokens = true;  // extension: adds the begin and end tokens to texts
  std::optional<int64_t>
      n_kept_tokens;  // extension: keep only this many tokens at the end of each input; -1: as many as fit
  bool keeps_start = false;  // true: keep the first n_kept_tokens of a longer input, as Ollama does
};

/// Parses the body's JSON object. n_dimensions: dimensions of the model's vectors. Throws RequestError.
EmbeddingRequest parse_embedding_request(const Json& body, const RequestLimits& limits, int n_dimensions);

}  // namespace hearth
