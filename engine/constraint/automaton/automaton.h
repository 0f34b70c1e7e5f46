// A grammar as a pushdown automaton over bytes. Each rule is a small deterministic automaton, and calls
// connect them.
//
// A text is read with a stack: a call pushes the state in which the caller continues, and the end of a rule
// pops that state. Immutable and thread-safe once built. mask/mask_cache.h describes how tokens are found
// with the automaton.
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
/// 1. From every state, some text leads to the end of the state's rule, through calls if necessary. So no
///    stack is a dead end.
/// 2. No rule's start is accepting: a call takes at least one byte. If a rule matches the empty string, its
///    callers have edges that bypass it.
/// 3. No cycle consists only of calls, without a byte read between them.
class Automaton {
 public:
  /// view_bytes: see view(). Throws ConstraintError if a rule is not defined, can never end, or begins with
  /// itself. A rule begins with itself (left recursion: a ::= a "x") even if it calls itself through other
  /// rules or after a part that may be empty. Also throws if the grammar matches no text or exceeds the
  /// budget. Takes well under a second for any grammar.
  Automaton(const Grammar& grammar, size_t view_bytes, CompileBudget budget = {});

  int32_t start() const { return start_; }               // start state of the root
  bool matches_empty() const { return root_nullable_; }  // whether the grammar matches the empty text
  int32_t n_states() const { return dfa_.n_states(); }

  bool is_accepting(int32_t state) const { return dfa_.accepting[static_cast<size_t>(state)] != 0; }
  std::span<const Dfa::ByteEdge> bytes_of(int32_t state) const { return dfa_.bytes_of(state); }
  /// Returns a state's call edges. Their `rule` is the callee's start state.
  std::span<const Dfa::CallEdge> calls_of(int32_t state) const { return dfa_.calls_of(state); }
  /// Returns whether the state's rule can end in this state and the state has no edges.
  bool is_final(int32_t state) const {
    return is_accepting(state) && bytes_of(state).empty() && calls_of(state).empty();
  }
  /// The start state of a called rule has a higher rank than every state with a call edge to it. States that
  /// are not the start of a called rule have rank 0.
  int32_t call_rank(int32_t state) const { return call_rank_[static_cast<size_t>(state)]; }
  /// The state after a byte; -1 if there is none.
  int32_t next(int32_t state, uint8_t byte) const;

  /// [256] the class of each byte, a number below n_classes(). The automaton treats all bytes of a class
  /// alike.
  const std::array<uint8_t, 256>& class_of_byte() const { return class_of_byte_; }
  size_t n_classes() const { return n_classes_; }

  /// Returns the index of the state's view, below n_views(). Two states have equal views if the same strings
  /// of up to view_bytes bytes may follow them, and if their rules can end at the same positions in these
  /// strings. The states of a counted repeat have equal views if the repeat's end is more than view_bytes
  /// bytes away.
  int32_t view(int32_t state) const { return view_[static_cast<size_t>(state)]; }
  int32_t n_views() const { return n_views_; }

 private:
  void find_classes();
  void find_views(size_t view_bytes);

  Dfa dfa_;  // automata of all rules, one after the other
  int32_t start_ = 0;
  bool root_nullable_ = false;
  std::vector<int32_t> call_rank_;
  std::array<uint8_t, 256> class_of_byte_{};
  size_t n_classes_ = 0;
  std::vector<int32_t> view_;
  int32_t n_views_ = 0;
};

}  // namespace hearth
