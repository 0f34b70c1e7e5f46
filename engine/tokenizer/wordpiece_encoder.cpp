// WordPiece: see the header. The steps and their order follow the BertNormalizer and BertPreTokenizer of
// Hugging Face's tokenizers.
#include "engine/tokenizer/wordpiece_encoder.h"

#include <algorithm>
#include <iterator>

#include "engine/text/space_sign.h"
#include "engine/text/unicode_properties.h"
#include "kernels/base/utf8.h"

namespace hearth {
namespace {

// BERT's own tokenizer has this limit, and all models of the family use that tokenizer.
constexpr size_t kLongestWord = 100;  // in characters
constexpr char32_t kReplacementCharacter = 0xFFFD;

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

/// Chinese characters: Han without Japanese and Korean letters. The gap after U+2B81F comes from Hugging
/// Face's tokenizers, with which later models of the family were trained. In BERT's own tokenizer, the next
/// range begins at U+2B820.
bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

/// Returns text without the characters that BERT ignores, and with a space for each white-space character.
std::u32string cleaned(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const Utf8Char front = utf8_front(text);
    if (front.status == Utf8Status::kWhole) {
      const char32_t c = code_points(text.substr(0, front.length))[0];
      const bool kept_control = c == '\t' || c == '\n' || c == '\r';
      if (kept_control || is_white_space(c)) {
        if (kept_control || !is_other(c)) out += U' ';
      } else if (c != kReplacementCharacter && !is_other(c)) {
        out += c;
      }
    }
    text.remove_prefix(front.length);
  }
  return out;
}

/// Appends c without its accents. `scratch` must be empty, and is empty again afterward.
void append_stripped(char32_t c, std::u32string& scratch, std::u32string& out) {
  append_decomposed(c, scratch);
  std::copy_if(scratch.begin(), scratch.end(), std::back_inserter(out),
               [](char32_t part) { return !is_nonspacing_mark(part); });
  scratch.clear();
}

void append_lower(char32_t c, std::u32string& out) {
  constexpr char32_t kDottedI = 0x130;  // the only character whose lower case consists of two characters
  if (c == kDottedI) {
    out += U"i\u0307";
  } else {
    out += lower_case(c);
  }
}

}  // namespace

void WordPieceEncoder::Pieces::add(std::string_view piece, int32_t token) {
  if (piece.empty()) return;
  tokens[piece] = token;
  longest = std::max(longest, piece.size());
}

WordPieceEncoder::WordPieceEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    if (!vocabulary.is_plain(token)) continue;
    const std::string_view text = vocabulary.texts[static_cast<size_t>(token)];
    if (text.starts_with(kSpaceSign)) {
      first_.add(text.substr(kSpaceSign.size()), token);
    } else {
      continuing_.add(text, token);
    }
  }
}

std::u32string WordPieceEncoder::normalized(std::string_view text) const {
  std::u32string in = cleaned(text);
  std::u32string out;
  if (vocabulary_.strip_accents) {
    std::u32string parts;
    for (const char32_t c : in) append_stripped(c, parts, out);
    in.swap(out);
    out.clear();
  }
  if (!vocabulary_.lower_case) return in;
  for (const char32_t c : in) append_lower(c, out);
  return out;
}

void WordPieceEncoder::encode(std::string_view text, bool /*at_start*/, std::vector<int32_t>& out) const {
  const std::u32string all = normalized(text);
  const std::u32string_view characters = all;
  size_t begin = 0;  // start of the current word
  for (size_t at = 0; at <= characters.size(); ++at) {
    const bool at_end = at == characters.size();
    const bool alone = !at_end && (is_punctuation(characters[at]) || is_ideograph(characters[at]));
    if (!at_end && !alone && !is_white_space(characters[at])) continue;
    if (at > begin) encode_word(characters.substr(begin, at - begin), out);
    if (alone) encode_word(characters.substr(at, 1), out);
    begin = at + 1;
  }
}

WordPieceEncoder::Longest WordPieceEncoder::longest_prefix(const Pieces& pieces, std::string_view text) {
  for (size_t length = std::min(pieces.longest, text.size()); length > 0; --length) {
    const auto found = pieces.tokens.find(text.substr(0, length));
    if (found != pieces.tokens.end()) return {found->second, length};
  }
  return {};
}

void WordPieceEncoder::encode_word(std::u32string_view word, std::vector<int32_t>& out) const {
  const size_t before = out.size();
  std::string bytes;
  if (word.size() <= kLongestWord) {
    for (const char32_t c : word) append_utf8(c, bytes);
  }
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const bool begins = rest.size() == bytes.size();
    const Longest piece = longest_prefix(begins ? first_ : continuing_, rest);
    if (piece.token < 0) break;
    out.push_back(piece.token);
    rest.remove_prefix(piece.length);
  }
  if (rest.empty() && !bytes.empty()) return;
  out.resize(before);
  if (vocabulary_.unk >= 0) out.push_back(vocabulary_.unk);
}

}  // namespace hearth
