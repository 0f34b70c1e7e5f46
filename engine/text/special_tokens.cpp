// The trie of special tokens: see the header.
#include "engine/text/special_tokens.h"

namespace hearth {

SpecialTokens::SpecialTokens() { roots_.fill(-1); }

void SpecialTokens::add(std::string_view text, int32_t token) {
  if (text.empty()) return;
  int32_t& root = roots_[static_cast<uint8_t>(text[0])];
  if (root < 0) {
    root = static_cast<int32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  int32_t node = root;
  for (const char c : text.substr(1)) {
    const int32_t next = child(node, static_cast<uint8_t>(c));
    node = next >= 0 ? next : add_child(node, static_cast<uint8_t>(c));
  }
  nodes_[node].token = token;
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, size_t from) const {
  if (nodes_.empty()) return {};
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (roots_[static_cast<uint8_t>(text[begin])] < 0) continue;
    const Match match = longest_at(text, begin);
    if (match.token >= 0) return match;
  }
  return {};
}

SpecialTokens::Match SpecialTokens::longest_at(std::string_view text, size_t begin) const {
  Match best;
  int32_t node = roots_[static_cast<uint8_t>(text[begin])];
  for (size_t end = begin + 1; node >= 0; ++end) {
    if (nodes_[node].token >= 0) best = {begin, end - begin, nodes_[node].token};
    if (end == text.size()) break;
    node = child(node, static_cast<uint8_t>(text[end]));
  }
  return best;
}

int32_t SpecialTokens::child(int32_t node, uint8_t byte) const {
  int32_t at = nodes_[node].first_child;
  while (at >= 0 && nodes_[at].byte != byte) at = nodes_[at].next_sibling;
  return at;
}

int32_t SpecialTokens::add_child(int32_t node, uint8_t byte) {
  const int32_t added = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({-1, -1, nodes_[node].first_child, byte});
  nodes_[node].first_child = added;
  return added;
}

}  // namespace hearth
