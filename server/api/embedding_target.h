// The description of a model, either the served model or the embedding model, for /v1/embeddings, /v1/rerank
// and the model lists.
//
// Filled by hearthd when the models are loaded, then read-only.
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
  int64_t created = 0;             // when the model was loaded, in Unix seconds
  int context_tokens = 0;          // maximum tokens of one text
  int n_dimensions = 0;            // length of the model's vectors
  Pooling pooling = Pooling::kLast;
  // Whether the model is an encoder, which needs begin and end tokens around each text.
  bool looks_ahead = false;
  int n_scores = 0;  // as in ModelSpec: above 0 if the model ranks texts, and neither embeds nor generates
  int n_separators = 1;                  // as in ModelSpec
  std::string rank_template = {};        // with {query} and {document}; empty for encoders
  ModelFileFacts facts = {};             // shown by Ollama's endpoints
  std::string device;                    // the device that computes the model; shown by /v1/models
  const Tokenizer* tokenizer = nullptr;  // not null; outlives the service
  size_t longest_token_bytes = 0;        // bytes of the vocabulary's longest token; set by ApiContext
  TokenGenerator* engine = nullptr;      // not null; outlives the service

  bool ranks() const { return n_scores > 0; }
};

}  // namespace hearth
