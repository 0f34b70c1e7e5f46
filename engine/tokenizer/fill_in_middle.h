// The tokens with which a model fills in the middle of a text, as named in the model file or recognized by
// their texts.
//
// Determined once when the vocabulary is read; plain data afterward.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model_file.h"

namespace hearth {

struct Vocabulary;

/// Ids are -1 if the model has no such token.
struct FimTokens {
  int32_t prefix = -1;  // precedes the text before the gap
  int32_t suffix = -1;  // precedes the text after the gap
  int32_t middle = -1;  // precedes the text to generate
  int32_t pad = -1;
  int32_t repo = -1;  // precedes the name of a repository
  int32_t file = -1;  // precedes the name and text of each file
  /// Whether the model was trained with the suffix before the prefix, like Codestral. Such a model needs no
  /// middle token.
  bool suffix_first = false;

  bool can_fill() const { return prefix >= 0 && suffix >= 0 && (middle >= 0 || suffix_first); }
  /// Returns the tokens that the model has, ascending. If the model generates one of them, the middle has
  /// ended.
  std::vector<int32_t> all() const;
};

/// Reads tokenizer.ggml.fim_*_token_id and their older names. If a key is missing, looks for a control or
/// user-defined token with a text that model families use. Throws ModelFileError for an id outside the
/// vocabulary.
FimTokens find_fim_tokens(const ModelFile& file, const Vocabulary& vocabulary);

}  // namespace hearth
