// Encoding and decoding with a model file's vocabulary: see the header.
#include "engine/tokenizer/vocabulary_tokenizer.h"

#include <utility>

#include "engine/tokenizer/bpe_encoder.h"
#include "engine/tokenizer/character_bpe_encoder.h"
#include "engine/tokenizer/sentencepiece_encoder.h"
#include "engine/tokenizer/unigram_encoder.h"
#include "engine/tokenizer/wordpiece_encoder.h"

namespace hearth {
namespace {

std::unique_ptr<const TextEncoder> make_encoder(const Vocabulary& vocabulary,
                                                std::span<const std::string_view> merges) {
  switch (vocabulary.kind) {
    case TokenizerKind::kSentencePiece:
      return std::make_unique<SentencePieceEncoder>(vocabulary);
    case TokenizerKind::kByteLevelBpe:
      return std::make_unique<BpeEncoder>(vocabulary, merges);
    case TokenizerKind::kCharacterBpe:
      return std::make_unique<CharacterBpeEncoder>(vocabulary, merges);
    case TokenizerKind::kWordPiece:
      return std::make_unique<WordPieceEncoder>(vocabulary);
    case TokenizerKind::kUnigram:
      return std::make_unique<UnigramEncoder>(vocabulary);
  }
  return nullptr;
}

}  // namespace

VocabularyTokenizer::VocabularyTokenizer(Vocabulary vocabulary, std::span<const std::string_view> merges)
    : vocabulary_(std::move(vocabulary)),
      decoded_(vocabulary_.decoded_bytes()),
      encoder_(make_encoder(vocabulary_, merges)) {
  for (int32_t token = 0; token < vocabulary_.size(); ++token) {
    const TokenType type = vocabulary_.types[token];
    const bool user_defined = type == TokenType::kUserDefined;
    if (user_defined) user_defined_.add(vocabulary_.texts[token], token);
    if (user_defined || is_control(token)) all_special_.add(vocabulary_.texts[token], token);
  }
}

std::vector<int32_t> VocabularyTokenizer::encode(std::string_view text, bool add_special,
                                                 bool parse_special) const {
  std::vector<int32_t> out;
  if (add_special && vocabulary_.add_bos) out.push_back(vocabulary_.bos);
  const SpecialTokens& specials = parse_special ? all_special_ : user_defined_;
  size_t at = 0;
  bool at_start = true;
  while (at < text.size()) {
    const SpecialTokens::Match match = specials.find(text, at);
    const size_t end = match.token >= 0 ? match.begin : text.size();
    if (end > at) encoder_->encode(text.substr(at, end - at), at_start, out);
    if (match.token >= 0) out.push_back(match.token);
    at_start = match.token >= 0;
    at = end + match.length;
  }
  if (add_special && vocabulary_.add_eos) out.push_back(vocabulary_.eos);
  return out;
}

void VocabularyTokenizer::append_bytes(int32_t token, bool with_special, std::string& out) const {
  if (with_special || !is_control(token)) out.append(decoded_[token]);
}

bool VocabularyTokenizer::is_control(int32_t token) const {
  // The unknown token counts as a control token, because its text "<unk>" is only a name and must not be
  // shown.
  return vocabulary_.types[token] == TokenType::kControl || vocabulary_.types[token] == TokenType::kUnknown;
}

std::unique_ptr<const Tokenizer> Tokenizer::from_model(const ModelFile& file) {
  Vocabulary vocabulary = read_vocabulary(file);
  std::vector<std::string_view> merges;
  if (vocabulary.kind == TokenizerKind::kByteLevelBpe || vocabulary.kind == TokenizerKind::kCharacterBpe) {
    auto found = file.find_strings("tokenizer.ggml.merges");
    if (!found) {
      throw ModelFileError(
          vocabulary.file +
          ": tokenizer.ggml.merges is missing, expected the merges of BPE; convert the model again");
    }
    merges = std::move(*found);
  }
  return std::make_unique<const VocabularyTokenizer>(std::move(vocabulary), merges);
}

}  // namespace hearth
