// SentencePiece's BPE: see the header.
#include "engine/tokenizer/sentencepiece_encoder.h"

#include <algorithm>
#include <queue>

#include "engine/text/space_sign.h"
#include "kernels/base/utf8.h"

namespace hearth {
namespace {

constexpr size_t kNoNeighbor = SIZE_MAX;

/// Whether the text has a space sign after any other character.
bool has_inner_space(std::string_view text) {
  size_t leading = 0;
  while (text.substr(leading, kSpaceSign.size()) == kSpaceSign) leading += kSpaceSign.size();
  return text.find(kSpaceSign, leading) != std::string_view::npos;
}

std::string with_space_signs(std::string_view text, bool prefix) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  if (prefix) out.append(kSpaceSign);
  append_with_space_signs(text, out);
  return out;
}

/// Returns the end of the word that starts at begin. The word begins with any space signs and ends before the
/// first space sign that follows another character.
size_t word_end(std::string_view text, size_t begin) {
  size_t at = begin;
  while (text.substr(at, kSpaceSign.size()) == kSpaceSign) at += kSpaceSign.size();
  return std::min(text.find(kSpaceSign, at), text.size());
}

}  // namespace

/// Scratch of one call of encode(). All segments of the text use it in turn.
struct SentencePieceEncoder::Work {
  struct Symbol {
    size_t begin;
    size_t length;  // 0: merged into the previous one
    size_t previous;
    size_t next;
  };
  /// A merge that was possible when it was queued. It is stale if the lengths of its two symbols no longer
  /// add up to `length`.
  struct Candidate {
    float score;
    size_t left;
    size_t length;
    bool operator<(const Candidate& other) const {
      return score < other.score || (score == other.score && left > other.left);
    }
  };
  std::vector<Symbol> symbols;
  std::priority_queue<Candidate> queue;
  // Merging may produce unused tokens on the way, but the output must not contain them. Maps each unused
  // token that was produced to the length of its left half, so that it can be split again.
  std::unordered_map<std::string_view, size_t> unused_splits;
  std::vector<std::string_view> stack;
  bool last_was_unknown = false;
};

SentencePieceEncoder::SentencePieceEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  byte_tokens_.fill(-1);
  const std::vector<std::string> decoded = vocabulary.decoded_bytes();
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const std::string& text = vocabulary.texts[token];
    if (vocabulary.types[token] == TokenType::kByte) {
      byte_tokens_[static_cast<uint8_t>(decoded[token][0])] = token;
    } else if (vocabulary.is_plain(token) && !text.empty()) {
      tokens_[text] = token;
      longest_token_ = std::max(longest_token_, text.size());
      spaces_only_lead_ = spaces_only_lead_ && !has_inner_space(text);
    }
  }
}

int32_t SentencePieceEncoder::find(std::string_view piece) const {
  if (piece.size() > longest_token_) return -1;
  const auto found = tokens_.find(piece);
  return found == tokens_.end() ? -1 : found->second;
}

void SentencePieceEncoder::encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const {
  if (text.empty()) return;
  const std::string spaced = with_space_signs(text, at_start && vocabulary_.add_space_prefix);
  Work work;
  // If no token has a space sign after another character, no merge can cross from one word into the next.
  // Then words can be encoded one by one.
  for (size_t begin = 0; begin < spaced.size();) {
    const size_t end = spaces_only_lead_ ? word_end(spaced, begin) : spaced.size();
    encode_segment(std::string_view(spaced).substr(begin, end - begin), work, out);
    begin = end;
  }
}

void SentencePieceEncoder::encode_segment(std::string_view segment, Work& work,
                                          std::vector<int32_t>& out) const {
  std::vector<Work::Symbol>& symbols = work.symbols;
  symbols.clear();
  for (size_t begin = 0; begin < segment.size();) {
    const size_t length = character_length(segment.substr(begin));
    const size_t i = symbols.size();
    symbols.push_back({begin, length, i > 0 ? i - 1 : kNoNeighbor, i + 1});
    begin += length;
  }
  symbols.back().next = kNoNeighbor;
  for (size_t i = 0; i < symbols.size(); ++i) consider(segment, i, work);

  while (!work.queue.empty()) {
    const Work::Candidate top = work.queue.top();
    work.queue.pop();
    Work::Symbol& left = symbols[top.left];
    if (left.length == 0 || left.next == kNoNeighbor) continue;
    Work::Symbol& right = symbols[left.next];
    if (left.length + right.length != top.length) continue;
    left.length += right.length;
    right.length = 0;
    left.next = right.next;
    if (right.next != kNoNeighbor) symbols[right.next].previous = top.left;
    consider(segment, left.previous, work);
    consider(segment, top.left, work);
  }
  for (size_t i = 0; i != kNoNeighbor; i = symbols[i].next) {
    emit(segment.substr(symbols[i].begin, symbols[i].length), work, out);
  }
  work.unused_splits.clear();
}

void SentencePieceEncoder::consider(std::string_view segment, size_t left, Work& work) const {
  if (left == kNoNeighbor || work.symbols[left].next == kNoNeighbor) return;
  const Work::Symbol& symbol = work.symbols[left];
  const size_t length = symbol.length + work.symbols[symbol.next].length;
  const std::string_view piece = segment.substr(symbol.begin, length);
  const int32_t token = find(piece);
  if (token < 0) return;
  work.queue.push({vocabulary_.scores[token], left, length});
  if (vocabulary_.types[token] == TokenType::kUnused) work.unused_splits[piece] = symbol.length;
}

void SentencePieceEncoder::emit(std::string_view piece, Work& work, std::vector<int32_t>& out) const {
  work.stack.assign(1, piece);
  while (!work.stack.empty()) {
    const std::string_view top = work.stack.back();
    work.stack.pop_back();
    const int32_t token = find(top);
    const auto split = token >= 0 && vocabulary_.types[token] == TokenType::kUnused
                           ? work.unused_splits.find(top)
                           : work.unused_splits.end();
    if (split != work.unused_splits.end()) {
      work.stack.push_back(top.substr(split->second));
      work.stack.push_back(top.substr(0, split->second));
    } else if (token >= 0) {
      out.push_back(token);
      work.last_was_unknown = false;
    } else {
      emit_bytes(top, work, out);
    }
  }
}

void SentencePieceEncoder::emit_bytes(std::string_view bytes, Work& work, std::vector<int32_t>& out) const {
  for (const char c : bytes) {
    const int32_t token = byte_tokens_[static_cast<uint8_t>(c)];
    if (token >= 0) {
      out.push_back(token);
    } else if (vocabulary_.unk >= 0 && !work.last_was_unknown) {
      out.push_back(vocabulary_.unk);
    }
    work.last_was_unknown = token < 0;
  }
}

}  // namespace hearth
