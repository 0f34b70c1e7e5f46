// Reads tokenizer.model, the protobuf message that SentencePiece saves: its pieces and its normalizer's
// settings.
//
// Files are not trusted: every length is checked (tests/fuzz/fuzz_sentencepiece_file.cpp). Fields that
// conversion does not need are skipped. SentencePiece's sentencepiece_model.proto defines the message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::convert {

struct SentencePieceFile {
  struct Piece {
    std::string text;
    float score = 0.0f;
    int32_t type = 1;  // GGUF's token type: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  };
  std::vector<Piece> pieces;
  bool unigram = true;  // false: BPE
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  std::string character_map;  // precompiled_charsmap
};

/// Throws ModelFileError (one sentence). label: a file_label.
SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& label);

}  // namespace hearth::convert
