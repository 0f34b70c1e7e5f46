// Normalization and the search for the best cut: see the header.
#include "engine/tokenizer/unigram_encoder.h"

#include <algorithm>
#include <limits>

#include "engine/text/space_sign.h"
#include "kernels/base/utf8.h"

namespace hearth {
namespace {

// SentencePiece's penalty: the score of a character without a token is this much lower than the worst token's
// score.
constexpr float kUnknownPenalty = 10.0F;

}  // namespace

UnigramEncoder::UnigramEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  if (!vocabulary.character_map.empty()) map_ = CharacterMap(vocabulary.character_map, vocabulary.file);
  byte_tokens_.fill(-1);
  const std::vector<std::string> decoded = vocabulary.decoded_bytes();
  float least = std::numeric_limits<float>::max();
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const std::string& text = vocabulary.texts[token];
    const TokenType type = vocabulary.types[token];
    if (type == TokenType::kByte) byte_tokens_[static_cast<uint8_t>(decoded[token][0])] = token;
    // SentencePiece never outputs tokens that are marked as unused.
    if (!vocabulary.is_plain(token) || type == TokenType::kUnused || text.empty()) continue;
    least = std::min(least, vocabulary.scores[token]);
    words_.push_back({text, token});
  }
  unknown_score_ = (words_.empty() ? 0 : least) - kUnknownPenalty;
  has_all_bytes_ = std::find(byte_tokens_.begin(), byte_tokens_.end(), -1) == byte_tokens_.end();
  // If several tokens have equal texts, the last one is used, as in the other encoders.
  std::sort(words_.begin(), words_.end(), [](const Word& a, const Word& b) {
    return a.text < b.text || (a.text == b.text && a.token > b.token);
  });
  words_.erase(std::unique(words_.begin(), words_.end(),
                           [](const Word& a, const Word& b) { return a.text == b.text; }),
               words_.end());
  for (const Word& word : words_) ++first_word_[static_cast<uint8_t>(word.text[0]) + 1];
  for (size_t byte = 0; byte < 256; ++byte) first_word_[byte + 1] += first_word_[byte];
}

std::string UnigramEncoder::normalized(std::string_view text, bool with_prefix) const {
  const bool merge_spaces = vocabulary_.remove_extra_spaces;
  std::string out;
  if (with_prefix) out.append(kSpaceSign);
  bool after_space = merge_spaces;  // leading spaces are dropped too
  while (!text.empty()) {
    CharacterMap::Rewritten front = map_.front(text);
    text.remove_prefix(front.consumed);
    while (after_space && front.text.starts_with(' ')) front.text.remove_prefix(1);
    append_with_space_signs(front.text, out);
    if (!front.text.empty()) after_space = merge_spaces && front.text.ends_with(' ');
  }
  if (merge_spaces) {
    while (out.ends_with(kSpaceSign)) out.resize(out.size() - kSpaceSign.size());
  }
  return out;
}

void UnigramEncoder::encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const {
  const std::string normal = normalized(text, at_start && vocabulary_.add_space_prefix);
  const std::string_view spaced = normal;
  std::vector<Best> best(spaced.size() + 1);
  best[0].reached = true;
  for (size_t at = 0; at < spaced.size(); at += utf8_front(spaced.substr(at)).length)
    extend(spaced, at, best);
  std::vector<size_t> ends;  // ends of the tokens, last one first
  for (size_t end = spaced.size(); end > 0; end = best[end].from) ends.push_back(end);
  bool after_unknown = false;
  for (; !ends.empty(); ends.pop_back()) {
    const size_t end = ends.back();
    const Best& last = best[end];
    if (last.token >= 0) {
      out.push_back(last.token);
    } else {
      emit_unknown(spaced.substr(last.from, end - last.from), after_unknown, out);
    }
    after_unknown = last.token < 0;
  }
}

void UnigramEncoder::extend(std::string_view text, size_t at, std::vector<Best>& best) const {
  if (!best[at].reached) return;
  const auto offer = [&](size_t length, float score, int32_t token) {
    Best& place = best[at + length];
    const double sum = best[at].score + score;
    if (!place.reached || sum > place.score) place = {sum, at, token, true};
  };
  const size_t character = utf8_front(text.substr(at)).length;
  bool has_character = false;
  const uint8_t byte = static_cast<uint8_t>(text[at]);
  auto low = words_.begin() + first_word_[byte];
  auto high = words_.begin() + first_word_[byte + 1U];
  for (size_t length = 1; low != high; ++length) {
    // All words in [low, high) start with the `length` bytes of the text from index `at` on. The first of
    // these words is the shortest; it may consist of exactly these bytes.
    if (low->text.size() == length) {
      offer(length, vocabulary_.scores[static_cast<size_t>(low->token)], low->token);
      has_character = has_character || length == character;
      ++low;
    }
    if (at + length == text.size()) break;
    const char next = text[at + length];
    const auto before = [length](const Word& word, char c) {
      return static_cast<uint8_t>(word.text[length]) < static_cast<uint8_t>(c);
    };
    const auto after = [length](char c, const Word& word) {
      return static_cast<uint8_t>(c) < static_cast<uint8_t>(word.text[length]);
    };
    low = std::lower_bound(low, high, next, before);
    high = std::upper_bound(low, high, next, after);
  }
  if (!has_character) offer(character, unknown_score_, -1);
}

void UnigramEncoder::emit_unknown(std::string_view bytes, bool after_unknown,
                                  std::vector<int32_t>& out) const {
  if (has_all_bytes_) {
    for (const char c : bytes) out.push_back(byte_tokens_[static_cast<uint8_t>(c)]);
  } else if (vocabulary_.unk >= 0 && !after_unknown) {
    out.push_back(vocabulary_.unk);
  }
}

}  // namespace hearth
