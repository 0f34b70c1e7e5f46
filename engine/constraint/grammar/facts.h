// Facts about a grammar's rules that the compiler of constraints needs before it builds their automata.
//
// The time is linear in the grammar's nodes, without recursion, because grammars come from clients.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

struct GrammarFacts {
  std::vector<Grammar::Rule> reachable;  // the rules that can be reached from the root, which is the first
  // [n_rules], for reachable rules:
  std::vector<uint8_t> nullable;  // the rule matches the empty string
  std::vector<uint8_t> is_small;  // the rule is better copied into its callers
};

/// Throws ConstraintError if a called rule is not defined, or if a rule can never end (a ::= "x" a). A rule
/// that matches nothing because it consists of nothing() is no error here.
GrammarFacts find_facts(const Grammar& grammar);

}  // namespace hearth
