// A model's vocabulary as stored in its file: texts, types, scores, and the tokens with a role.
//
// Read once when the model is loaded and const afterward. The encoders are built from it. Absent keys have
// llama.cpp's defaults, because its converters write these files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/tokenizer/fill_in_middle.h"

namespace hearth {

enum class TokenType : uint8_t {  // the numbers of tokenizer.ggml.token_type
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

enum class TokenizerKind {
  kSentencePiece,  // tokenizer.ggml.model "llama": merges by score
  kByteLevelBpe,   // "gpt2": a list of merges over bytes
  kCharacterBpe,   // "gemma4": a list of merges over characters
  kWordPiece,      // "bert"
  kUnigram,        // "t5"
};

struct Vocabulary {
  std::string file;  // for messages
  TokenizerKind kind = TokenizerKind::kByteLevelBpe;
  std::string pre;  // name of the pre-tokenizer; byte-level BPE only

  /// [n_vocab] texts as spelled in the file; as many as there are types and scores
  std::vector<std::string> texts;
  // [n_vocab] For SentencePiece, the merge order: the highest score merges first. For a unigram model,
  // log-probabilities. Never NaN.
  std::vector<float> scores;
  std::vector<TokenType> types;  // [n_vocab]

  int32_t bos = -1;  // bos, eos and unk are -1 if the model has no such token
  int32_t eos = -1;
  int32_t unk = -1;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
  bool remove_extra_spaces = false;  // unigram models only, like character_map
  std::string character_map;         // CharacterMap's bytes; empty if there is none
  bool lower_case = false;           // WordPiece only, like strip_accents
  bool strip_accents = false;
  std::vector<int32_t> end_tokens;         // ascending, no duplicates
  std::vector<int32_t> suppressed_tokens;  // tokens that must not be generated
  FimTokens fim;

  int size() const { return static_cast<int>(texts.size()); }
  /// Whether the tokens' texts use U+2581 for a space and "<0x0A>" for a byte.
  bool spells_spaces() const { return kind != TokenizerKind::kByteLevelBpe; }
  /// Whether the token is ordinary text: not a control, user-defined, unknown or byte token.
  bool is_plain(int32_t token) const;
  /// Returns the bytes that each token stands for in text, [n_vocab]. They may be only part of a character.
  std::vector<std::string> decoded_bytes() const;
};

/// Reads and checks the tokenizer.ggml.* keys. Throws a ModelFileError that names the unknown tokenizer model
/// or the damaged key.
Vocabulary read_vocabulary(const ModelFile& file);

/// Returns the token id stored under key. If the file lacks the key, returns by_default if that token exists
/// and is a control or unknown token, else -1. Throws ModelFileError for an id outside the vocabulary.
/// REQUIRES: the texts and types of `vocabulary` have been read.
int32_t read_token_id(const ModelFile& file, const Vocabulary& vocabulary, const char* key,
                      int32_t by_default);

}  // namespace hearth
