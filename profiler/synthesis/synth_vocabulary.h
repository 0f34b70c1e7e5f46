// A made-up SentencePiece vocabulary, so that a synthetic model needs no other file.
//
// Every text can be encoded with it: what no piece covers falls to 256 byte tokens. Pieces are syllables and
// words of them, so that what the model says can be read out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth {

struct SynthVocabulary {
  std::vector<std::string> pieces;  // no two alike
  std::vector<float> scores;        // higher merges first
  std::vector<int32_t> types;       // GGUF's tokenizer.ggml.token_type
};

inline constexpr int kSynthUnknown = 0, kSynthBegin = 1, kSynthEnd = 2;
inline constexpr int kSynthFirstPiece = 3 + 256;  // after the control and byte tokens

/// Fewest and most tokens of a vocabulary.
inline constexpr int kMinSynthVocabulary = kSynthFirstPiece + 1;
inline constexpr int kMaxSynthVocabulary = 1 << 19;

/// REQUIRES: kMinSynthVocabulary <= n <= kMaxSynthVocabulary.
SynthVocabulary make_synth_vocabulary(int n);

}  // namespace hearth
