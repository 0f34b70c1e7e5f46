// A grammar as a pushdown automaton over bytes: one small deterministic automaton for each rule, joined by calls.
//
// A text is read with a stack: a call pushes the state in which the caller goes on, and the end of a rule pops it.
// Immutable and thread-safe once built. constraint.h says how tokens are found with it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/constraint/automaton/dfa.h"
#include "engine/constraint/grammar/grammar.h"

namespace hearth {

/// Invariants:
///   1. From every state the end of its rule can be reached, calls included. So no stack is a dead end.
///   2. No rule's start is accepting: a call takes at least one byte. Where a rule matches the empty string, its callers
///      have edges that pass it by.
///   3. Calls that take no byte in between cannot go round in a circle.
class Automaton {
 public:
  /// view_bytes: see view(). Throws ConstraintError: a rule that can never end, that begins with itself (left recursion:
  /// a ::= a "x", also through other rules or behind what may be empty), or is not defined; a grammar that matches no text,
  /// or takes more than the budget. Takes well under a second, whatever the grammar.
  Automaton(const Grammar& grammar, size_t view_bytes, CompileBudget budget = {});

  int32_t start() const { return start_; }               // of the root
  bool matches_empty() const { return root_nullable_; }  // is the empty text in the language?
  int32_t n_states() const { return dfa_.n_states(); }

  bool is_accepting(int32_t state) const { return dfa_.accepting[static_cast<size_t>(state)] != 0; }
  std::span<const Dfa::ByteEdge> bytes_of(int32_t state) const { return dfa_.bytes_of(state); }
  /// Here an edge's `rule` is the callee's start state.
  std::span<const Dfa::CallEdge> calls_of(int32_t state) const { return dfa_.calls_of(state); }
  /// Is the rule over in this state, with nothing that could follow in it?
  bool is_final(int32_t state) const {
    return is_accepting(state) && bytes_of(state).empty() && calls_of(state).empty();
  }
  /// Starts of rules have a higher rank than the states that call them without taking a byte; states that are no start, 0.
  int32_t call_rank(int32_t state) const { return call_rank_[static_cast<size_t>(state)]; }
  /// The state that a byte leads to; -1 if there is none.
  int32_t next(int32_t state, uint8_t byte) const;

  /// Bytes of one class are never told apart: [256] numbers below n_classes().
  const std::array<uint8_t, 256>& class_of_byte() const { return class_of_byte_; }
  size_t n_classes() const { return n_classes_; }

  /// States with one view allow the same view_bytes next bytes, and end their rule at the same places among these. The
  /// states of a counted repeat have one view as long as its end is far. Numbers below n_views().
  int32_t view(int32_t state) const { return view_[static_cast<size_t>(state)]; }
  int32_t n_views() const { return n_views_; }

 private:
  void find_classes();
  void find_views(size_t view_bytes);

  Dfa dfa_;  // of all rules, one behind the other
  int32_t start_ = 0;
  bool root_nullable_ = false;
  std::vector<int32_t> call_rank_;
  std::array<uint8_t, 256> class_of_byte_{};
  size_t n_classes_ = 0;
  std::vector<int32_t> view_;
  int32_t n_views_ = 0;
};

}  // namespace hearth
