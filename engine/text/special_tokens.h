// Finds special tokens in text, before the tokenizer does anything else with the text. Scans from the left
// and prefers the longest token at a position.
//
// Uses a trie over the tokens' texts, so that the time depends on the text and the longest token, not on the
// number of tokens (some vocabularies have thousands). Built at load, const and thread-safe afterward.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hearth {

class SpecialTokens {
 public:
  struct Match {
    size_t begin = 0;
    size_t length = 0;   // 0 if there is none
    int32_t token = -1;  // -1 if there is none
  };

  SpecialTokens();
  /// Ignores an empty text. If two tokens have equal texts, the last one added is found, as in llama.cpp.
  void add(std::string_view text, int32_t token);
  /// Finds the leftmost match at or after `from`. If several tokens match there, returns the longest.
  Match find(std::string_view text, size_t from) const;

 private:
  // A node's children are a linked list, because few nodes have more than one. The nodes of the tokens' first
  // bytes are in a separate table.
  struct Node {
    int32_t token = -1;
    int32_t first_child = -1;
    int32_t next_sibling = -1;
    uint8_t byte = 0;
  };

  int32_t child(int32_t node, uint8_t byte) const;
  int32_t add_child(int32_t node, uint8_t byte);
  Match longest_at(std::string_view text, size_t begin) const;

  std::vector<Node> nodes_;
  std::array<int32_t, 256> roots_;  // [first byte] the node; -1 if no token starts with the byte
};

}  // namespace hearth
