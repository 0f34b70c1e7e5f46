// The tokens by which a model fills in the middle of a text, as its file names them or as their texts are known.
//
// Found once when the vocabulary is read; plain data afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model_file.h"

namespace hearth {

struct Vocabulary;

/// Ids are -1 where the model has no such token.
struct FimTokens {
  int32_t prefix = -1;  // before the text that comes before the gap
  int32_t suffix = -1;  // before the text that comes after it
  int32_t middle = -1;  // before the text that is to be generated
  int32_t pad = -1;
  int32_t repo = -1;  // before the name of a repository
  int32_t file = -1;  // before the name and the text of each file
  /// The model was trained with the suffix before the prefix, and needs no middle token: Codestral.
  bool suffix_first = false;

  bool can_fill() const { return prefix >= 0 && suffix >= 0 && (middle >= 0 || suffix_first); }
  /// Those that the model has, ascending: a model that generates one has ended the middle.
  std::vector<int32_t> all() const;
};

/// Reads tokenizer.ggml.fim_*_token_id and their older names. What these do not name is found by the texts that families of
/// models use, among control and user-defined tokens. Throws ModelFileError for an id outside the vocabulary.
FimTokens find_fim_tokens(const ModelFile& file, const Vocabulary& vocabulary);

}  // namespace hearth
