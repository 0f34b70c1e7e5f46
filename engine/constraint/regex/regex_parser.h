// Parses a regular expression to a tree. Accepts the syntax that has one meaning in JSON Schema's `pattern`
// (ECMA-262), in Python and in Rust; docs/structured.md lists it. Refuses syntax whose meaning differs
// between them, and syntax that is not regular (lookaround, backreferences). The error gives its position.
//
// Used by regex.h. Limits: patterns of at most 20,000 bytes, groups at most 100 deep, and counts of at most
// 10,000.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "engine/constraint/grammar/character_set.h"

namespace hearth {

struct RegexNode {
  enum class Kind {
    kCharacter,  // one character of the set
    kSequence,   // the children in sequence; the empty text if there are none
    kChoice,     // one of the children
    kRepeat,     // children[0], from least to most times
    kStart,      // ^: nothing precedes
    kEnd,        // $: nothing follows
  };
  Kind kind = Kind::kSequence;
  size_t position = 1;  // where the node starts in the pattern; the first character has position 1
  CharacterSet characters{};
  std::vector<RegexNode> children{};
  int least = 1, most = 1;  // for kRepeat; most may be Grammar::kNoMaximum
};

/// Throws ConstraintError with where() "position N".
RegexNode parse_regex(std::string_view pattern);

/// Returns how many characters the tree has after its counted repeats are expanded; at most kMaxRegexSize.
size_t regex_size(const RegexNode& node);
constexpr size_t kMaxRegexSize = 50'000;

[[noreturn]] void refuse_regex(const RegexNode& node, const std::string& sentence);

}  // namespace hearth
