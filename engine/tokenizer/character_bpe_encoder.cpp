// BPE over characters: see the header.
#include "engine/tokenizer/character_bpe_encoder.h"

#include <algorithm>

#include "engine/text/space_sign.h"
#include "kernels/base/utf8.h"

namespace hearth {
namespace {

/// Returns the length in bytes of the first line of text. If text starts with line breaks, returns the length
/// of that run of line breaks.
size_t line_length(std::string_view text) {
  return std::min(text[0] == '\n' ? text.find_first_not_of('\n') : text.find('\n'), text.size());
}

}  // namespace

CharacterBpeEncoder::CharacterBpeEncoder(const Vocabulary& vocabulary,
                                         std::span<const std::string_view> merges)
    : vocabulary_(vocabulary), merges_(merges.size()) {
  byte_tokens_.fill(-1);
  const std::vector<std::string> decoded = vocabulary.decoded_bytes();
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const std::string& text = vocabulary.texts[token];
    if (vocabulary.types[token] == TokenType::kByte) {
      byte_tokens_[static_cast<uint8_t>(decoded[token][0])] = token;
    } else if (vocabulary.is_plain(token) && !text.empty()) {
      symbols_.insert_or_assign(text, token);
    }
  }
  for (size_t i = 0; i < merges.size(); ++i) {
    const MergeSides sides = merge_sides(vocabulary.file, i, merges[i]);
    const std::string left(sides.left);
    const std::string right(sides.right);
    merges_.insert(intern(left), intern(right), {static_cast<uint32_t>(i), intern(left + right)});
  }
}

CharacterBpeEncoder::Symbol CharacterBpeEncoder::intern(const std::string& piece) {
  const auto [at, is_new] = symbols_.try_emplace(piece, first_character());
  if (is_new) pieces_.push_back(piece);
  return at->second;
}

void CharacterBpeEncoder::encode(std::string_view text, bool /*at_start*/, std::vector<int32_t>& out) const {
  std::string spaced;
  append_with_space_signs(text, spaced);
  bool after_unknown = false;
  for (std::string_view rest = spaced; !rest.empty();) {
    const size_t length = line_length(rest);
    encode_line(rest.substr(0, length), after_unknown, out);
    rest.remove_prefix(length);
  }
}

void CharacterBpeEncoder::encode_line(std::string_view line, bool& after_unknown,
                                      std::vector<int32_t>& out) const {
  // Converters omit the merges of line breaks, although the vocabulary has tokens for runs of them.
  const auto whole = line[0] == '\n' ? symbols_.find(line) : symbols_.end();
  if (whole != symbols_.end() && whole->second < vocabulary_.size()) {
    out.push_back(whole->second);
    after_unknown = false;
    return;
  }
  std::vector<Symbol> symbols;
  for (size_t at = 0; at < line.size(); at += character_length(line.substr(at))) {
    const auto found = symbols_.find(line.substr(at, character_length(line.substr(at))));
    symbols.push_back(found != symbols_.end() ? found->second : first_character() + static_cast<Symbol>(at));
  }
  bpe_merge(merges_, symbols);
  for (const Symbol symbol : symbols) {
    if (symbol < vocabulary_.size()) {
      out.push_back(symbol);
      after_unknown = false;
    } else if (symbol < first_character()) {
      emit_bytes(pieces_[static_cast<size_t>(symbol - vocabulary_.size())], after_unknown, out);
    } else {
      const std::string_view rest = line.substr(static_cast<size_t>(symbol - first_character()));
      emit_bytes(rest.substr(0, character_length(rest)), after_unknown, out);
    }
  }
}

void CharacterBpeEncoder::emit_bytes(std::string_view bytes, bool& after_unknown,
                                     std::vector<int32_t>& out) const {
  for (const char c : bytes) {
    const int32_t token = byte_tokens_[static_cast<uint8_t>(c)];
    if (token >= 0) {
      out.push_back(token);
    } else if (vocabulary_.unk >= 0 && !after_unknown) {
      out.push_back(vocabulary_.unk);
    }
    after_unknown = token < 0;
  }
}

}  // namespace hearth
