// See the header.
#include "engine/tokenizer/fill_in_middle.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "engine/tokenizer/vocabulary.h"

namespace hearth {
namespace {

/// The texts of the tokens in one family of models. An empty text means that the family has no such token.
struct Spelling {
  std::string_view prefix, suffix, middle, pad, repo, file;
  bool suffix_first = false;
};
constexpr std::array kSpellings = {
    Spelling{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>",
             "<|file_sep|>"},
    Spelling{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<repo_name>", "<file_sep>"},
    Spelling{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<reponame>", "<filename>"},
    Spelling{"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "<fim-pad>", "<fim-repo>", ""},
    Spelling{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", "", ""},
    Spelling{"<|fim▁begin|>", "<|fim▁hole|>", "<|fim▁end|>", "", "", ""},
    Spelling{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "", "", ""},
    Spelling{"<PRE>", "<SUF>", "<MID>", "", "", ""},
    Spelling{"▁<PRE>", "▁<SUF>", "▁<MID>", "", "", ""},
    Spelling{"[PREFIX]", "[SUFFIX]", "", "", "", "", true},
};

using Ids = std::unordered_map<std::string_view, int32_t>;

/// Returns the control and user-defined tokens by their texts. Ordinary text does not contain these texts by
/// chance.
Ids special_ids(const Vocabulary& vocabulary) {
  Ids ids;
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const TokenType type = vocabulary.types[static_cast<size_t>(token)];
    if (type == TokenType::kControl || type == TokenType::kUserDefined)
      ids.emplace(vocabulary.texts[static_cast<size_t>(token)], token);
  }
  return ids;
}

int32_t id_of(const Ids& ids, std::string_view text) {
  const auto found = text.empty() ? ids.end() : ids.find(text);
  return found == ids.end() ? -1 : found->second;
}

FimTokens spelled(const Ids& ids, const Spelling& spelling) {
  return {.prefix = id_of(ids, spelling.prefix),
          .suffix = id_of(ids, spelling.suffix),
          .middle = id_of(ids, spelling.middle),
          .pad = id_of(ids, spelling.pad),
          .repo = id_of(ids, spelling.repo),
          .file = id_of(ids, spelling.file),
          .suffix_first = spelling.suffix_first};
}

/// Returns the tokens of the first family whose required tokens are all in the vocabulary. But a later family
/// takes precedence if it has the same prefix token and also a token for files, which the first family lacks.
FimTokens known_by_text(const Vocabulary& vocabulary) {
  const Ids ids = special_ids(vocabulary);
  FimTokens best;
  for (const Spelling& spelling : kSpellings) {
    const FimTokens found = spelled(ids, spelling);
    if (!found.can_fill()) continue;
    if (!best.can_fill() || (best.file < 0 && found.file >= 0 && best.prefix == found.prefix)) best = found;
  }
  return best;
}

}  // namespace

std::vector<int32_t> FimTokens::all() const {
  std::vector<int32_t> tokens;
  for (const int32_t token : {prefix, suffix, middle, pad, repo, file}) {
    if (token >= 0) tokens.push_back(token);
  }
  std::ranges::sort(tokens);
  return tokens;
}

FimTokens find_fim_tokens(const ModelFile& file, const Vocabulary& vocabulary) {
  FimTokens tokens = known_by_text(vocabulary);
  const auto take = [&](int32_t& token, const char* key, const char* older) {
    int32_t named = read_token_id(file, vocabulary, key, -1);
    if (named < 0 && older != nullptr) named = read_token_id(file, vocabulary, older, -1);
    if (named >= 0) token = named;
  };
  take(tokens.prefix, "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id");
  take(tokens.suffix, "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id");
  take(tokens.middle, "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id");
  take(tokens.pad, "tokenizer.ggml.fim_pad_token_id", nullptr);
  take(tokens.repo, "tokenizer.ggml.fim_rep_token_id", nullptr);
  take(tokens.file, "tokenizer.ggml.fim_sep_token_id", nullptr);
  if (tokens.middle >= 0) tokens.suffix_first = false;
  return tokens;
}

}  // namespace hearth
