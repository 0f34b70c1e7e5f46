// Control tokens, bytes, characters, then syllables joined to longer and longer words.
#include "profiler/synthesis/synth_vocabulary.h"

#include <cassert>
#include <cstdio>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

// GGUF's token types.
constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;
constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581, SentencePiece's mark of a word's begin

/// Twenty consonants times five vowels.
std::vector<std::string> syllables() {
  constexpr std::string_view kConsonants = "bcdfghjklmnpqrstvwyz", kVowels = "aeiou";
  std::vector<std::string> all;
  for (const char consonant : kConsonants) {
    for (const char vowel : kVowels) all.push_back({consonant, vowel});
  }
  return all;
}

}  // namespace

SynthVocabulary make_synth_vocabulary(int n) {
  assert(n >= kMinSynthVocabulary && n <= kMaxSynthVocabulary);
  const size_t size = static_cast<size_t>(n);
  SynthVocabulary vocabulary;
  const auto add = [&](std::string piece, float score, int32_t type) {
    if (vocabulary.pieces.size() == size) return;
    vocabulary.pieces.push_back(std::move(piece));
    vocabulary.scores.push_back(score);
    vocabulary.types.push_back(type);
  };
  add("<unk>", 0.0f, kUnknown);
  add("<s>", 0.0f, kControl);
  add("</s>", 0.0f, kControl);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    add(text, 0.0f, kByte);
  }
  // The earlier a piece, the sooner it is merged; every piece is the join of two earlier ones.
  const auto add_piece = [&](std::string piece) {
    const size_t rank = vocabulary.pieces.size() - kSynthFirstPiece;
    add(std::move(piece), -static_cast<float>(rank), kNormal);
  };
  add_piece(std::string(kSpace));
  for (char c = '!'; c <= '~'; ++c) add_piece({c});
  const std::vector<std::string> units = syllables();
  std::vector<std::string> words = units;
  while (vocabulary.pieces.size() < size) {
    for (const std::string& word : words) add_piece(word);
    for (const std::string& word : words) add_piece(std::string(kSpace) + word);
    std::vector<std::string> longer;
    for (const std::string& word : words) {
      if (longer.size() >= size) break;  // enough for every place that is left
      for (const std::string& unit : units) longer.push_back(word + unit);
    }
    words = std::move(longer);
  }
  return vocabulary;
}

}  // namespace hearth
