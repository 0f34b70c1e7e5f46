// Joins the automata of a grammar's rules into one, without parts that no text can use.
//
// Used only while a grammar is compiled (automaton.h), by one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/constraint/automaton/dfa.h"
#include "engine/constraint/grammar/grammar.h"

namespace hearth {

struct LinkedRules {
  Dfa dfa;            // `rule` of a call edge is the callee's start state
  int32_t start = 0;  // of the root
  /// [n_states] 0, except for starts of called rules: greater than the rank of every state that calls them.
  std::vector<int32_t> call_rank;
};

/// rules: [n_rules] the automata of the grammar's rules; empty (no states) for rules that the root does not
/// reach. Omits calls of rules that match nothing, and states from which their rule cannot end. The starts of
/// the result are not accepting. Throws ConstraintError if the root matches no text or a rule begins with
/// itself.
LinkedRules link_rules(const Grammar& grammar, const std::vector<Dfa>& rules);

}  // namespace hearth
