// See the header.
#include "server/api/rerank/pair_tokens.h"

#include <algorithm>
#include <string_view>

namespace hearth {
namespace {

PairTokens encoder_pair(const EmbeddingTarget& target, const std::string& query, const std::string& document,
                        const PairLimits& limits) {
  const Tokenizer& tokenizer = *target.tokenizer;
  const std::vector<int32_t> ends = tokenizer.encode("", true, false);
  const bool begins = !ends.empty() && ends.front() == tokenizer.bos();
  const bool separates = ends.size() > (begins ? 1U : 0U);
  PairTokens pair;
  if (begins) pair.tokens.push_back(ends.front());
  for (const int32_t token : tokenizer.encode(query, false, false)) pair.tokens.push_back(token);
  for (int i = 0; separates && i < target.n_separators; ++i) pair.tokens.push_back(ends.back());
  pair.second_text = static_cast<int>(pair.tokens.size());
  std::vector<int32_t> second = tokenizer.encode(document, false, false);
  const size_t others = pair.tokens.size() + (separates ? 1 : 0);
  size_t n_kept = std::min(second.size(), limits.document.value_or(second.size()));
  if (limits.pair) n_kept = std::min(n_kept, *limits.pair - std::min(*limits.pair, others));
  pair.tokens.insert(pair.tokens.end(), second.begin(), second.begin() + static_cast<std::ptrdiff_t>(n_kept));
  if (separates) pair.tokens.push_back(ends.back());
  return pair;
}

std::string filled(std::string_view part, const std::string& query, const std::string& document) {
  constexpr std::string_view kQuery = "{query}", kDocument = "{document}";
  std::string text;
  while (!part.empty()) {
    if (part.starts_with(kQuery)) {
      text += query;
      part.remove_prefix(kQuery.size());
    } else if (part.starts_with(kDocument)) {
      text += document;
      part.remove_prefix(kDocument.size());
    } else {
      text += part.front();
      part.remove_prefix(1);
    }
  }
  return text;
}

/// Tokenizes the filled template. Its control tokens are found before the texts are filled in.
std::vector<int32_t> template_tokens(const EmbeddingTarget& target, const std::string& query,
                                     const std::string& document) {
  const Tokenizer& tokenizer = *target.tokenizer;
  std::string_view rest = target.rank_template;
  std::vector<int32_t> tokens;
  const auto add_text = [&](std::string_view part) {
    if (part.empty()) return;
    for (const int32_t token : tokenizer.encode(filled(part, query, document), false, false))
      tokens.push_back(token);
  };
  for (const int32_t token : tokenizer.encode(target.rank_template, false, true)) {
    if (!tokenizer.is_control(token)) continue;
    const std::string_view spelling = tokenizer.spelling(token);
    const size_t at = rest.find(spelling);
    if (at == std::string_view::npos) continue;  // an unknown token
    add_text(rest.substr(0, at));
    tokens.push_back(token);
    rest.remove_prefix(at + spelling.size());
  }
  add_text(rest);
  return tokens;
}

/// Returns the beginning of a document: its first n tokens.
std::string beginning(const Tokenizer& tokenizer, const std::string& document, size_t n) {
  std::vector<int32_t> tokens = tokenizer.encode(document, false, false);
  if (tokens.size() <= n) return document;
  tokens.resize(n);
  return tokenizer.decode(tokens, false);
}

PairTokens template_pair(const EmbeddingTarget& target, const std::string& query, const std::string& document,
                         const PairLimits& limits) {
  const Tokenizer& tokenizer = *target.tokenizer;
  std::string kept = limits.document ? beginning(tokenizer, document, *limits.document) : document;
  PairTokens pair{template_tokens(target, query, kept)};
  // A cut text may have more tokens than were kept, because words are cut. Each pass leaves out at least one.
  while (limits.pair && pair.tokens.size() > *limits.pair && !kept.empty()) {
    const size_t n = tokenizer.encode(kept, false, false).size();
    kept = beginning(tokenizer, kept, n - std::min(n, pair.tokens.size() - *limits.pair));
    pair.tokens = template_tokens(target, query, kept);
  }
  return pair;
}

}  // namespace

PairTokens pair_tokens(const EmbeddingTarget& target, const std::string& query, const std::string& document,
                       const PairLimits& limits) {
  return target.rank_template.empty() ? encoder_pair(target, query, document, limits)
                                      : template_pair(target, query, document, limits);
}

}  // namespace hearth
