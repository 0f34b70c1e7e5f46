// Deterministic automata over bytes and calls of rules. A grammar's rules are compiled to them.
//
// Used only while a grammar is compiled (automaton.h), by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/constraint/compile_budget.h"

namespace hearth {

/// State 0 is the start. A state has at most one byte edge for each byte and at most one call edge for each
/// rule. A state may have both byte edges and call edges. The right edge may then become known only when the
/// called rule has matched.
struct Dfa {
  struct ByteEdge {
    uint8_t first, last;  // bytes, both inclusive
    int32_t to;
  };
  struct CallEdge {
    int32_t rule;
    int32_t to;  // continuation once the rule has matched
  };

  std::vector<uint8_t> accepting;  // [n_states]
  // The edges of state s are [begin[s], begin[s + 1]). Byte edges are sorted by byte and do not overlap; call
  // edges are sorted by rule.
  std::vector<ByteEdge> byte_edges;
  std::vector<uint32_t> byte_begin{0};
  std::vector<CallEdge> call_edges;
  std::vector<uint32_t> call_begin{0};

  int32_t n_states() const { return static_cast<int32_t>(accepting.size()); }
  std::span<const ByteEdge> bytes_of(int32_t state) const {
    const auto s = static_cast<size_t>(state);
    return std::span(byte_edges).subspan(byte_begin[s], byte_begin[s + 1] - byte_begin[s]);
  }
  std::span<const CallEdge> calls_of(int32_t state) const {
    const auto s = static_cast<size_t>(state);
    return std::span(call_edges).subspan(call_begin[s], call_begin[s + 1] - call_begin[s]);
  }
  /// Appends an edge to the current state, or extends the state's last edge if the two are adjacent and have
  /// equal targets.
  void add_byte_edge(ByteEdge edge);
  /// Completes the current state. All its edges must have been added.
  void end_state(bool is_accepting);
};

enum class DfaProduct { kBoth, kExcept };

/// Returns an automaton for the texts that both a and b match (kBoth), or that a matches and b does not
/// (kExcept). REQUIRES: a and b contain no calls. Throws ConstraintError if the product needs too many
/// states.
Dfa product(const Dfa& a, const Dfa& b, DfaProduct kind, CompileBudget& budget);

/// Returns the smallest automaton of the same language. Calls are treated as letters, and states from which
/// no end can be reached are omitted. An empty language gives one state without edges. Returns very large
/// automata unchanged. Throws ConstraintError if minimizing takes too much work.
Dfa minimize(const Dfa& dfa, CompileBudget& budget);

}  // namespace hearth
