// Builds automata, and products of two automata: see the header.
#include "engine/constraint/automaton/dfa.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace hearth {
namespace {

constexpr int32_t kDead = -1;

/// Builds the product from pairs of states of a and b, numbered in the order of discovery. In a pair whose
/// second state is kDead, b can no longer match.
class Pairs {
 public:
  Pairs(const Dfa& a, const Dfa& b, DfaProduct kind, CompileBudget& budget)
      : a_(a), b_(b), kind_(kind), budget_(budget) {
    number_of({0, 0});
    for (size_t i = 0; i < pairs_.size(); ++i) write(pairs_[i]);
  }
  Dfa take() { return std::move(out_); }

 private:
  using Pair = std::pair<int32_t, int32_t>;

  int32_t number_of(Pair pair) {
    const uint64_t key = (static_cast<uint64_t>(pair.first) << 32) | static_cast<uint32_t>(pair.second);
    const auto [at, is_new] = numbers_.try_emplace(key, static_cast<int32_t>(pairs_.size()));
    if (is_new) {
      budget_.take_state();
      pairs_.push_back(pair);
    }
    return at->second;
  }

  void write(Pair pair) {
    const bool in_b = pair.second != kDead && b_.accepting[static_cast<size_t>(pair.second)] != 0;
    const bool accepting =
        a_.accepting[static_cast<size_t>(pair.first)] != 0 && in_b == (kind_ == DfaProduct::kBoth);
    for (const Dfa::ByteEdge& edge : a_.bytes_of(pair.first)) write_edge(edge, pair.second);
    out_.end_state(accepting);
  }

  /// Writes an edge of automaton a, split so that each part leads to one state of automaton b.
  void write_edge(Dfa::ByteEdge edge, int32_t b_state) {
    int from = edge.first;
    const auto b_edges = b_state == kDead ? std::span<const Dfa::ByteEdge>() : b_.bytes_of(b_state);
    for (const Dfa::ByteEdge& other : b_edges) {
      budget_.take_work();
      const int first = std::max<int>(from, other.first), last = std::min(edge.last, other.last);
      if (first > last) continue;
      if (first > from) write_without_b(from, first - 1, edge.to);
      add(first, last, {edge.to, other.to});
      from = last + 1;
    }
    if (from <= edge.last) write_without_b(from, edge.last, edge.to);
  }
  void write_without_b(int first, int last, int32_t a_to) {
    if (kind_ == DfaProduct::kExcept) add(first, last, {a_to, kDead});
  }
  void add(int first, int last, Pair to) {
    budget_.take_work();
    out_.add_byte_edge({static_cast<uint8_t>(first), static_cast<uint8_t>(last), number_of(to)});
  }

  const Dfa& a_;
  const Dfa& b_;
  const DfaProduct kind_;
  CompileBudget& budget_;
  std::unordered_map<uint64_t, int32_t> numbers_;
  std::vector<Pair> pairs_;
  Dfa out_;
};

}  // namespace

void Dfa::add_byte_edge(ByteEdge edge) {
  if (byte_edges.size() > byte_begin.back()) {
    ByteEdge& last = byte_edges.back();
    if (last.to == edge.to && last.last + 1 == edge.first) {
      last.last = edge.last;
      return;
    }
  }
  byte_edges.push_back(edge);
}

void Dfa::end_state(bool is_accepting) {
  accepting.push_back(is_accepting ? 1 : 0);
  byte_begin.push_back(static_cast<uint32_t>(byte_edges.size()));
  call_begin.push_back(static_cast<uint32_t>(call_edges.size()));
}

Dfa product(const Dfa& a, const Dfa& b, DfaProduct kind, CompileBudget& budget) {
  return minimize(Pairs(a, b, kind, budget).take(), budget);
}

}  // namespace hearth
