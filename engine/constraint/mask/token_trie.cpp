// Builds tries from sorted byte strings. See the header.
#include "engine/constraint/mask/token_trie.h"

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
  const auto [at, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(at - a.begin());
}

/// Sets the end of the subtrees of open nodes that are deeper than `depth`, and closes these nodes.
void close(ByteTrie& trie, std::vector<uint32_t>& open, size_t depth) {
  for (; open.size() > depth; open.pop_back())
    trie.nodes[open.back()].end = static_cast<uint32_t>(trie.nodes.size());
}

/// tokens: sorted by their bytes.
ByteTrie make_trie(const std::vector<std::string>& pieces, std::span<const int32_t> tokens) {
  ByteTrie trie;
  std::vector<uint32_t> open;  // [depth] the nodes of the last token's bytes
  std::string_view last;
  for (const int32_t token : tokens) {
    const std::string_view piece = pieces[static_cast<size_t>(token)];
    close(trie, open, common_prefix(last, piece));
    while (open.size() < piece.size()) {
      const auto byte = static_cast<uint8_t>(piece[open.size()]);
      open.push_back(static_cast<uint32_t>(trie.nodes.size()));
      trie.nodes.push_back(
          {0, static_cast<uint32_t>(trie.tokens.size()), static_cast<uint16_t>(open.size()), byte});
    }
    trie.tokens.push_back(token);
    last = piece;
  }
  close(trie, open, 0);
  trie.nodes.push_back(
      {static_cast<uint32_t>(trie.nodes.size()) + 1, static_cast<uint32_t>(trie.tokens.size()), 0, 0});
  return trie;
}

/// Returns the longest token that the text starts with, or -1 if there is none. Among tokens with equal
/// bytes, returns the lowest id.
int32_t longest_prefix(const ByteTrie& trie, std::string_view text) {
  int32_t longest = -1;
  for (uint32_t node = 0, end = trie.n_nodes(); node < end;) {
    const ByteTrie::Node& here = trie.nodes[node];
    if (here.depth > text.size() || here.byte != static_cast<uint8_t>(text[here.depth - 1u])) {
      node = here.end;
      continue;
    }
    if (!trie.tokens_at(node).empty()) longest = trie.tokens_at(node).front();
    end = here.end;
    ++node;
  }
  return longest;
}

}  // namespace

std::shared_ptr<const TokenTrie> TokenTrie::from_tokenizer(const Tokenizer& tokenizer,
                                                           std::span<const int32_t> controls) {
  std::vector<std::string> pieces(static_cast<size_t>(tokenizer.n_vocab()));
  const std::vector<int32_t>& ends = tokenizer.end_tokens();
  for (int32_t token = 0; token < tokenizer.n_vocab(); ++token)
    if (!tokenizer.is_control(token) && !std::binary_search(ends.begin(), ends.end(), token))
      tokenizer.append_bytes(token, false, pieces[static_cast<size_t>(token)]);
  for (const int32_t token : controls)
    tokenizer.append_bytes(token, true, pieces[static_cast<size_t>(token)]);
  auto trie = std::make_shared<TokenTrie>(std::move(pieces));
  trie->tokenizer_ = &tokenizer;
  trie->has_controls_ = !controls.empty();
  return trie;
}

TokenTrie::TokenTrie(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
  std::vector<int32_t> short_ones, long_ones;
  for (size_t token = 0; token < pieces_.size(); ++token) {
    std::string& piece = pieces_[token];
    if (piece.size() > kMostBytes) piece.clear();
    if (piece.empty()) continue;
    (piece.size() <= kShortBytes ? short_ones : long_ones).push_back(static_cast<int32_t>(token));
  }
  const auto by_bytes = [&](int32_t a, int32_t b) {
    const int order = pieces_[static_cast<size_t>(a)].compare(pieces_[static_cast<size_t>(b)]);
    return order != 0 ? order < 0 : a < b;
  };
  std::sort(short_ones.begin(), short_ones.end(), by_bytes);
  std::sort(long_ones.begin(), long_ones.end(), by_bytes);
  short_tokens_ = make_trie(pieces_, short_ones);
  long_tokens_ = make_trie(pieces_, long_ones);
}

std::string_view TokenTrie::bytes(int32_t token) const {
  const auto index = static_cast<size_t>(token);
  return token >= 0 && index < pieces_.size() ? std::string_view(pieces_[index]) : std::string_view();
}

std::vector<int32_t> TokenTrie::longer_tokens(std::string_view begin) const {
  std::vector<int32_t> longer;
  for (const ByteTrie* trie : {&short_tokens_, &long_tokens_}) {
    uint32_t first = 0, end = trie->n_nodes();  // the children of the node reached, with their subtrees
    for (const char c : begin) {
      uint32_t child = first;
      while (child < end && trie->nodes[child].byte != static_cast<uint8_t>(c))
        child = trie->nodes[child].end;
      first = std::min(child + 1, end);
      if (child < end) end = trie->nodes[child].end;
    }
    for (uint32_t node = first; node < end; ++node) {
      const std::span<const int32_t> tokens = trie->tokens_at(node);
      longer.insert(longer.end(), tokens.begin(), tokens.end());
    }
  }
  return longer;
}

std::vector<int32_t> TokenTrie::encode(std::string_view text) const {
  if (tokenizer_ == nullptr) return encode_greedily(text);
  std::vector<int32_t> tokens = tokenizer_->encode(text, false, has_controls_);
  std::string spelled;
  for (const int32_t token : tokens) spelled += bytes(token);
  return spelled == text ? tokens : encode_greedily(text);
}

std::vector<int32_t> TokenTrie::encode_greedily(std::string_view text) const {
  std::vector<int32_t> tokens;
  while (!text.empty()) {
    int32_t token = longest_prefix(long_tokens_, text);
    if (token < 0) token = longest_prefix(short_tokens_, text);
    if (token < 0) return {};
    tokens.push_back(token);
    text.remove_prefix(bytes(token).size());
  }
  return tokens;
}

}  // namespace hearth
