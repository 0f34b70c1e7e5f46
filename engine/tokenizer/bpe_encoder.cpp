// Byte-level BPE: see the header.
#include "engine/tokenizer/bpe_encoder.h"

#include <algorithm>

#include "engine/text/byte_alphabet.h"
#include "engine/tokenizer/bpe_merge.h"

namespace hearth {

BpeEncoder::BpeEncoder(const Vocabulary& vocabulary, std::span<const std::string_view> merges)
    : pre_tokenizer_(vocabulary.pre),
      ignore_merges_(PreTokenizer::habits(vocabulary.pre).ignore_merges),
      n_vocab_(vocabulary.size()),
      merges_(merges.size()),
      is_whole_word_(vocabulary.texts.size(), false) {
  for (int32_t token = 0; token < n_vocab_; ++token) {
    if (!vocabulary.is_plain(token) || vocabulary.texts[token].empty()) continue;
    std::string bytes = spelled_bytes(vocabulary.texts[token]);
    longest_token_ = std::max(longest_token_, bytes.size());
    symbols_.insert_or_assign(std::move(bytes), token);
  }
  for (int byte = 0; byte < 256; ++byte)
    byte_symbols_[byte] = intern(std::string(1, static_cast<char>(byte)));
  add_merges(vocabulary.file, merges);
  find_whole_words();
}

BpeEncoder::Symbol BpeEncoder::intern(const std::string& bytes) {
  const auto [at, is_new] = symbols_.try_emplace(bytes, n_vocab_ + static_cast<Symbol>(extra_bytes_.size()));
  if (is_new) extra_bytes_.push_back(bytes);
  return at->second;
}

void BpeEncoder::add_merges(const std::string& file, std::span<const std::string_view> merges) {
  for (size_t i = 0; i < merges.size(); ++i) {
    const MergeSides sides = merge_sides(file, i, merges[i]);
    const std::string left = spelled_bytes(sides.left);
    const std::string right = spelled_bytes(sides.right);
    merges_.insert(intern(left), intern(right), {static_cast<uint32_t>(i), intern(left + right)});
  }
}

void BpeEncoder::find_whole_words() {
  std::vector<Symbol> word;
  for (const auto& [bytes, symbol] : symbols_) {
    if (symbol >= n_vocab_) continue;
    if (!ignore_merges_) {
      start_word(bytes, word);
      bpe_merge(merges_, word);
    }
    is_whole_word_[symbol] = ignore_merges_ || (word.size() == 1 && word[0] == symbol);
  }
}

void BpeEncoder::encode(std::string_view text, bool /*at_start*/, std::vector<int32_t>& out) const {
  std::vector<Symbol> symbols;
  for (const Piece& piece : pre_tokenizer_.split(text)) {
    encode_word(text.substr(piece.begin, piece.length), symbols, out);
  }
}

void BpeEncoder::start_word(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  for (const char c : word) symbols.push_back(byte_symbols_[static_cast<uint8_t>(c)]);
}

void BpeEncoder::encode_word(std::string_view word, std::vector<Symbol>& symbols,
                             std::vector<int32_t>& out) const {
  if (word.size() <= longest_token_) {
    const auto found = symbols_.find(word);
    if (found != symbols_.end() && found->second < n_vocab_ && is_whole_word_[found->second]) {
      out.push_back(found->second);
      return;
    }
  }
  start_word(word, symbols);
  bpe_merge(merges_, symbols);
  for (const Symbol symbol : symbols) emit(symbol, out);
}

void BpeEncoder::emit(Symbol symbol, std::vector<int32_t>& out) const {
  if (symbol < n_vocab_) {
    out.push_back(symbol);
    return;
  }
  // The symbol is not a token: encode its bytes one by one, dropping those that the vocabulary lacks.
  for (const char c : extra_bytes_[symbol - n_vocab_]) {
    const Symbol byte = byte_symbols_[static_cast<uint8_t>(c)];
    if (byte < n_vocab_) out.push_back(byte);
  }
}

}  // namespace hearth
