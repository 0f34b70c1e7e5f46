// Nondeterministic automata. A rule's expression is converted to a nondeterministic automaton, which is then
// converted to a deterministic one (dfa.h).
//
// Used only while a grammar is compiled (automaton.h), by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/constraint/automaton/dfa.h"
#include "engine/constraint/compile_budget.h"
#include "engine/constraint/grammar/facts.h"
#include "engine/constraint/grammar/grammar.h"

namespace hearth {

struct Nfa {
  static constexpr int32_t kStart = 0, kEnd = 1;
  static constexpr int32_t kBytes = -1, kEmpty = -2;  // values of Edge::rule that are not rule numbers
  struct Edge {
    int32_t from, to;
    int32_t rule;         // for a call edge; kBytes: the edge reads a byte; kEmpty: it reads nothing
    uint8_t first, last;  // for a byte edge
  };
  int32_t n_states = 2;
  std::vector<Edge> edges;
};

/// Builds the automata of rules by Thompson's construction (1968). Copies small rules into their callers.
class NfaBuilder {
 public:
  NfaBuilder(const Grammar& grammar, const GrammarFacts& facts, CompileBudget& budget)
      : grammar_(grammar), facts_(facts), budget_(budget) {}

  /// Throws ConstraintError if the automaton needs too many states, or if a `both` or `except` contains calls
  /// of rules.
  Nfa build(Grammar::Expr body);

 private:
  struct Job;
  class Build;

  /// The context of an expression: the number of enclosing expressions that are built separately (see
  /// automaton_of()), and whether an intersection or a difference is among them.
  struct Place {
    int depth = 0;
    bool in_product = false;
  };
  /// Returns the automaton of an expression that is built separately: a `both`, an `except`, or an expression
  /// that is repeated often. Builds it only once, even if the expression is used several times.
  const Dfa& automaton_of(Grammar::Expr expr, Place place);
  Dfa make_automaton(Grammar::Expr expr, Place place);
  Nfa build(Grammar::Expr body, Place place);
  std::span<const std::pair<uint8_t, uint8_t>> ranges_of(const Grammar::Node& set);

  const Grammar& grammar_;
  const GrammarFacts& facts_;
  CompileBudget& budget_;
  std::map<std::pair<Grammar::Expr, bool>, Dfa> automata_;              // by expression and in_product
  std::map<int32_t, std::vector<std::pair<uint8_t, uint8_t>>> ranges_;  // by byte set
};

/// Converts the automaton by the subset construction (Rabin and Scott 1959). nullable: [n_rules] whether the
/// rule matches the empty text; a call of such a rule may also be skipped. Throws ConstraintError if the
/// result needs too many states or steps.
Dfa determinize(const Nfa& nfa, const std::vector<uint8_t>& nullable, CompileBudget& budget);

}  // namespace hearth
