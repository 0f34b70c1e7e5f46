// Facts about a grammar's rules that are needed before the rules' automata are built.
//
// The time is linear in the grammar's nodes, without recursion, because grammars come from clients.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

struct GrammarFacts {
  std::vector<Grammar::Rule> reachable;  // the rules that are reachable from the root; the root comes first
  // [n_rules], for reachable rules:
  std::vector<uint8_t> nullable;  // the rule matches the empty string
  std::vector<uint8_t> is_small;  // the rule should be copied into its callers
};

/// Throws ConstraintError if a called rule is not defined, or if a rule can never end (a ::= "x" a). A rule
/// whose body is nothing() matches no text, but that is not an error here.
GrammarFacts find_facts(const Grammar& grammar);

}  // namespace hearth
