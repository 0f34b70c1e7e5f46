// A model as /v1/embeddings and the lists of models see it: the model that is served, or the embedding model beside it.
//
// Filled by hearthd when the models are loaded; read-only after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model/pooling.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/api/model_file_facts.h"

namespace hearth {

struct EmbeddingTarget {
  std::vector<std::string> names;  // the first is the default
  int64_t created = 0;             // Unix seconds: when it was loaded
  int context_tokens = 0;          // tokens of one text, at most
  int n_dimensions = 0;            // of its vectors
  Pooling pooling = Pooling::kLast;
  bool looks_ahead = false;              // an encoder, whose texts need their first and last special token
  ModelFileFacts facts = {};             // what its file says about it; Ollama's endpoints show it
  std::string device;                    // what computes it; /v1/models shows it
  const Tokenizer* tokenizer = nullptr;  // not null; outlives the service
  size_t longest_token_bytes = 0;        // of its vocabulary; set by ApiContext
  TokenGenerator* engine = nullptr;      // not null; outlives the service
};

}  // namespace hearth
