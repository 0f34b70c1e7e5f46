// The body of POST /v1/rerank as plain data. The names are those of Cohere's and Jina's APIs.
//
// Parsed on the HTTP thread; the checks need nothing of the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/json/json.h"

namespace hearth {

struct RerankRequest {
  std::string query;                   // not empty
  std::vector<std::string> documents;  // 1 to 2048; none is empty
  std::optional<size_t> top_n;         // at least 1; absent: all documents
  bool return_documents = false;
  bool raw_scores = false;  // extension of Text Embeddings Inference: scores before the sigmoid
  std::optional<int64_t> max_tokens_per_doc;  // of each document, only this many tokens at its beginning
  // Extension of vLLM: cut documents so that query and document have at most this many tokens; -1: as many as
  // fit the context.
  std::optional<int64_t> n_kept_tokens;
};

/// body: a JSON object. Throws RequestError.
RerankRequest parse_rerank_request(const Json& body);

}  // namespace hearth
