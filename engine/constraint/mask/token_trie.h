// The byte strings of a vocabulary's tokens as tries. Constraints walk through them to find the tokens that
// may come next.
//
// Built once per tokenizer and shared by all constraints; const and thread-safe after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace hearth {

/// A trie as an array in depth-first order. A node's subtree follows the node directly, so that a walk can
/// skip a rejected subtree by continuing at its end.
struct ByteTrie {
  struct Node {
    uint32_t end;  // index of the first node after the subtree
    /// The tokens whose bytes end exactly at this node: tokens[first_token] up to the next node's
    /// first_token.
    uint32_t first_token;
    uint16_t depth;  // number of bytes from the root to this node; 1 for the root's children
    uint8_t byte;
  };
  /// The root is not stored. After the last node there is a sentinel, of which only first_token is used.
  std::vector<Node> nodes;
  std::vector<int32_t> tokens;  // several may have the same bytes

  uint32_t n_nodes() const { return static_cast<uint32_t>(nodes.size() - 1); }
  std::span<const int32_t> tokens_at(uint32_t node) const {
    const uint32_t first = nodes[node].first_token;
    return std::span(tokens).subspan(first, nodes[node + 1].first_token - first);
  }
};

class TokenTrie {
 public:
  /// Tokens of at most kShortBytes bytes are in short_tokens(), longer ones in long_tokens(). Two constraint
  /// states with equal views (Automaton::view()) allow the same strings of up to kShortBytes bytes, so they
  /// share one mask of short tokens. Long tokens are checked again for every StackSets::Set. With a limit of
  /// 12 bytes, 1,208 of GPT-2's 50,257 tokens are long.
  static constexpr size_t kShortBytes = 12;
  /// Maximum length in bytes of a token that a constraint allows. The longest tokens of known vocabularies
  /// are runs of 128 spaces.
  static constexpr size_t kMostBytes = 1024;

  /// Builds the tries of text tokens. Control tokens, end tokens and tokens without bytes are omitted,
  /// because a constraint never allows them.
  /// Some tokenizers drop a space at the beginning of a text (strips_leading_space()). In the tries, that
  /// space is a byte like any other, because generated text continues a prompt and is shown with the space.
  /// The tokenizer must outlive the trie. controls: control tokens that are included with their text, such as
  /// <tool_call>.
  static std::shared_ptr<const TokenTrie> from_tokenizer(const Tokenizer& tokenizer,
                                                         std::span<const int32_t> controls = {});

  /// pieces: [n_vocab] the bytes of each token; empty for omitted tokens.
  explicit TokenTrie(std::vector<std::string> pieces);

  const ByteTrie& short_tokens() const { return short_tokens_; }
  const ByteTrie& long_tokens() const { return long_tokens_; }
  size_t n_vocab() const { return pieces_.size(); }
  /// Returns the bytes of a token; empty if the token is omitted or not in the vocabulary.
  std::string_view bytes(int32_t token) const;
  /// Returns the tokens that begin with these bytes and have further ones.
  std::vector<int32_t> longer_tokens(std::string_view begin) const;
  /// Returns text tokens that spell the text. These are the tokenizer's tokens if they give exactly this
  /// text. Otherwise they are the longest possible tokens, from left to right. Empty if the vocabulary lacks
  /// a byte.
  std::vector<int32_t> encode(std::string_view text) const;

 private:
  std::vector<int32_t> encode_greedily(std::string_view text) const;

  const Tokenizer* tokenizer_ = nullptr;  // null: built from pieces
  bool has_controls_ = false;
  std::vector<std::string> pieces_;
  ByteTrie short_tokens_, long_tokens_;
};

}  // namespace hearth
