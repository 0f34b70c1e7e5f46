// Converts a query and a document to the tokens that a model was trained to rank.
//
// An encoder reads both texts with separators, as Hugging Face's tokenizers join pairs. A model that
// generated text before it was trained to rank has a template in its file. In neither case can a text become
// a control token, because documents may come from strangers. Called on HTTP threads; stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/embedding_target.h"

namespace hearth {

struct PairTokens {
  std::vector<int32_t> tokens;
  int second_text = 0;  // as in SequenceRequest; 0 for a template
};

/// Limits on the tokens of a pair. Documents are cut at their end.
struct PairLimits {
  std::optional<size_t> document;  // tokens of the document
  std::optional<size_t> pair;      // all tokens of the pair; a query that needs more is not cut
};

/// REQUIRES: target.ranks().
PairTokens pair_tokens(const EmbeddingTarget& target, const std::string& query, const std::string& document,
                       const PairLimits& limits);

}  // namespace hearth
