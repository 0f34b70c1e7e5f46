// Deterministic automata over bytes and calls of rules: the compiled form of a grammar's rules.
//
// Used only while a grammar is compiled (automaton.h), by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/constraint/compile_budget.h"

namespace hearth {

/// State 0 is the start. A byte leads from a state to at most one state, and so does a call of one rule; but
/// a state may have both byte edges and calls, so the continuation is not determined until the callee has
/// matched.
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
  // Edges of state s: [begin[s], begin[s + 1]). Byte edges are sorted by bytes and do not overlap; calls are
  // sorted by rules.
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
  /// Appends an edge to the current state; merges it with the last edge if they are adjacent.
  void add_byte_edge(ByteEdge edge);
  /// Completes the current state; all its edges have been added.
  void end_state(bool is_accepting);
};

enum class DfaProduct { kBoth, kExcept };

/// Returns the language that both match, or that a matches and b does not. REQUIRES: no calls in a and b.
/// Throws ConstraintError if it takes too many states.
Dfa product(const Dfa& a, const Dfa& b, DfaProduct kind, CompileBudget& budget);

/// Returns the smallest automaton of the same language, with calls as letters and without states from which
/// no end can be reached. An empty language gives one state without edges. Very large automata are returned
/// unchanged. Throws ConstraintError if it takes too much work.
Dfa minimize(const Dfa& dfa, CompileBudget& budget);

}  // namespace hearth
