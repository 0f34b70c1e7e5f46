// Joins the automata of a grammar's rules into one automaton, without the parts that no text can reach.
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
  int32_t start = 0;  // start state of the root
  /// [n_states] The start state of a called rule has a higher rank than every state with a call edge to it.
  /// Other states have rank 0. See Automaton::call_rank().
  std::vector<int32_t> call_rank;
};

/// rules: [n_rules] the automata of the grammar's rules. The automaton of a rule that is not reachable from
/// the root has no states. The result omits calls of rules that match nothing, and states from which the end
/// of their rule cannot be reached. No start state in the result is accepting. Throws ConstraintError if the
/// root matches no text or if a rule begins with itself.
LinkedRules link_rules(const Grammar& grammar, const std::vector<Dfa>& rules);

}  // namespace hearth
