// Finds special tokens in text before any other step: the longest one at each position, scanning from the
// left.
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
  /// Ignores empty texts; if two texts are equal, the last one added counts, as in llama.cpp.
  void add(std::string_view text, int32_t token);
  /// Finds the leftmost match at or after `from`, and the longest of those that start there.
  Match find(std::string_view text, size_t from) const;

 private:
  // A node's children are a linked list, because few nodes have more than one. First bytes have a separate
  // table.
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
  std::array<int32_t, 256> roots_;  // node of each first byte, -1 if no token starts with it
};

}  // namespace hearth
