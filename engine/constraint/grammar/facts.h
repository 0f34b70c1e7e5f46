// What the compiler of constraints has to know of a grammar's rules before it builds their automata.
//
// All of it is found in a time that grows with the grammar's nodes, without recursion: grammars come from clients.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

struct GrammarFacts {
  std::vector<Grammar::Rule> reachable;  // from the root; the root is first
  // [n_rules], of reachable rules:
  std::vector<uint8_t> nullable;  // does the rule match the empty string?
  std::vector<uint8_t> is_small;  // is the rule better copied to where it is called?
};

/// Throws ConstraintError if a rule is called and not defined, or if a rule can never end (a ::= "x" a). A rule that
/// matches nothing because it is made of nothing() is no error here.
GrammarFacts find_facts(const Grammar& grammar);

}  // namespace hearth
