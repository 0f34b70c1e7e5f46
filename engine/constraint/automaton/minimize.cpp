// The smallest automaton of a language: see minimize() in dfa.h.
//
// This is a form of Hopcroft's algorithm for partial automata with few edges: A. Valmari, "Fast brief
// practical DFA minimization", 2012. Sets of edges determine how to split sets of states, and the new sets of
// states determine how to split sets of edges. After a split, only the smaller part is examined again, so the
// time is n log n for n edges.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/constraint/automaton/dfa.h"

namespace hearth {
namespace {

/// A partition of the numbers 0 to n - 1 into sets. To refine it, mark some elements, then separate them from
/// the others.
class Partition {
 public:
  explicit Partition(size_t n) : elements_(n), place_(n), set_(n), marked_(n + 1) {
    std::iota(elements_.begin(), elements_.end(), 0);
    std::iota(place_.begin(), place_.end(), 0);
    if (n > 0) bounds_.push_back({0, static_cast<int32_t>(n)});
  }

  size_t n_sets() const { return bounds_.size(); }
  int32_t set_of(int32_t element) const { return set_[at(element)]; }
  /// Returns the elements of a set. Their order is arbitrary, and mark() changes it.
  std::vector<int32_t> members(size_t set) const {
    return {elements_.begin() + bounds_[set].first, elements_.begin() + bounds_[set].second};
  }
  size_t size(size_t set) const { return static_cast<size_t>(bounds_[set].second - bounds_[set].first); }

  void mark(int32_t element) {
    const int32_t set = set_of(element);
    const int32_t goal = bounds_[at(set)].first + marked_[at(set)];
    const int32_t from = place_[at(element)];
    if (from < goal) return;  // already marked
    std::swap(elements_[at(from)], elements_[at(goal)]);
    place_[at(elements_[at(from)])] = from;
    place_[at(element)] = goal;
    if (marked_[at(set)]++ == 0) touched_.push_back(set);
  }

  /// Splits every set that has both marked and unmarked elements; the smaller part becomes a new set. Removes
  /// all marks.
  void split() {
    for (; !touched_.empty(); touched_.pop_back()) {
      const int32_t set = touched_.back();
      const int32_t middle = bounds_[at(set)].first + std::exchange(marked_[at(set)], 0);
      if (middle == bounds_[at(set)].second) continue;
      auto& [first, last] = bounds_[at(set)];
      const bool marked_are_fewer = middle - first <= last - middle;
      const std::pair<int32_t, int32_t> part =
          marked_are_fewer ? std::pair(first, middle) : std::pair(middle, last);
      (marked_are_fewer ? first : last) = middle;
      for (int32_t i = part.first; i < part.second; ++i)
        set_[at(elements_[at(i)])] = static_cast<int32_t>(bounds_.size());
      bounds_.push_back(part);
    }
  }

 private:
  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  std::vector<int32_t> elements_, place_, set_, marked_;
  std::vector<std::pair<int32_t, int32_t>> bounds_;
  std::vector<int32_t> touched_;
};

struct Edge {
  int32_t from, label, to;
};
constexpr size_t kWorkOfEdge = 3;  // steps charged for an edge, which takes about 100 ns and 40 bytes
/// Automata with more edges stay unchanged. They result from long counted repeats and long lists of words, in
/// which few states can be merged. An automaton that is not minimized takes longer to build but not to use.
constexpr size_t kMostEdges = 50'000;

/// One list of numbers for each key. All lists are in one array.
struct Lists {
  std::vector<size_t> begin;
  std::vector<int32_t> items;

  /// Puts each item i from 0 to n_items - 1 into the list of key(i), which must be below n_keys.
  template <typename Key>
  Lists(size_t n_keys, size_t n_items, Key key) : begin(n_keys + 1), items(n_items) {
    for (size_t i = 0; i < n_items; ++i) ++begin[key(i) + 1];
    for (size_t k = 0; k < n_keys; ++k) begin[k + 1] += begin[k];
    std::vector<size_t> next(begin.begin(), begin.end() - 1);
    for (size_t i = 0; i < n_items; ++i) items[next[key(i)]++] = static_cast<int32_t>(i);
  }
  std::span<const int32_t> of(int32_t key) const {
    const auto k = static_cast<size_t>(key);
    return std::span(items).subspan(begin[k], begin[k + 1] - begin[k]);
  }
};

/// Assigns a letter, which is a number, to each byte. Two bytes get the same letter if no edge of the
/// automaton distinguishes them.
struct Letters {
  std::array<int32_t, 257> of_byte{};  // the last entry is the number of letters

  explicit Letters(const Dfa& dfa) {
    std::array<bool, 257> begins{};
    for (const Dfa::ByteEdge& edge : dfa.byte_edges)
      begins[edge.first] = begins[edge.last + size_t{1}] = true;
    int32_t letter = 0;
    for (size_t b = 0; b < 257; ++b) {
      if (b > 0 && begins[b]) ++letter;
      of_byte[b] = letter;
    }
    of_byte[256] = of_byte[255] + 1;
  }
};

std::vector<uint8_t> states_that_can_end(const Dfa& dfa) {
  std::vector<Edge> edges;
  for (int32_t s = 0; s < dfa.n_states(); ++s) {
    for (const Dfa::ByteEdge& edge : dfa.bytes_of(s)) edges.push_back({s, 0, edge.to});
    for (const Dfa::CallEdge& edge : dfa.calls_of(s)) edges.push_back({s, 0, edge.to});
  }
  const Lists into(dfa.accepting.size(), edges.size(),
                   [&](size_t i) { return static_cast<size_t>(edges[i].to); });
  std::vector<uint8_t> can_end = dfa.accepting;
  std::vector<int32_t> news;
  for (int32_t s = 0; s < dfa.n_states(); ++s)
    if (can_end[static_cast<size_t>(s)]) news.push_back(s);
  while (!news.empty()) {
    const int32_t state = news.back();
    news.pop_back();
    for (const int32_t edge : into.of(state)) {
      const int32_t from = edges[static_cast<size_t>(edge)].from;
      if (std::exchange(can_end[static_cast<size_t>(from)], uint8_t{1}) == 0) news.push_back(from);
    }
  }
  return can_end;
}

/// Returns the edges between states from which an end can be reached. A byte edge is returned once for each
/// letter in its byte range.
std::vector<Edge> labeled_edges(const Dfa& dfa, const Letters& letters, const std::vector<uint8_t>& can_end,
                                CompileBudget& budget) {
  std::vector<Edge> edges;
  for (int32_t s = 0; s < dfa.n_states(); ++s) {
    if (!can_end[static_cast<size_t>(s)]) continue;
    for (const Dfa::ByteEdge& edge : dfa.bytes_of(s)) {
      if (!can_end[static_cast<size_t>(edge.to)]) continue;
      const int32_t first = letters.of_byte[edge.first], last = letters.of_byte[edge.last];
      budget.take_work(static_cast<size_t>(last - first + 1) * kWorkOfEdge);
      for (int32_t letter = first; letter <= last; ++letter) edges.push_back({s, letter, edge.to});
    }
    for (const Dfa::CallEdge& edge : dfa.calls_of(s))
      if (can_end[static_cast<size_t>(edge.to)])
        edges.push_back({s, letters.of_byte[256] + edge.rule, edge.to});
  }
  return edges;
}

/// Returns a partition of the edges with one set per label.
Partition partition_by_label(const std::vector<Edge>& edges) {
  Partition partition(edges.size());
  std::vector<int32_t> order(edges.size());
  std::iota(order.begin(), order.end(), 0);
  const auto label = [&](int32_t e) { return edges[static_cast<size_t>(e)].label; };
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return label(a) < label(b); });
  for (size_t i = 0; i < order.size(); ++i) {
    partition.mark(order[i]);
    if (i + 1 == order.size() || label(order[i]) != label(order[i + 1])) partition.split();
  }
  return partition;
}

Partition equivalent_states(const Dfa& dfa, const std::vector<Edge>& edges,
                            const std::vector<uint8_t>& can_end) {
  const auto n = dfa.accepting.size();
  Partition states(n);
  for (const std::vector<uint8_t>* property : {&dfa.accepting, &can_end}) {
    for (int32_t s = 0; s < dfa.n_states(); ++s)
      if ((*property)[static_cast<size_t>(s)]) states.mark(s);
    states.split();
  }
  Partition cords = partition_by_label(edges);
  const Lists into(n, edges.size(), [&](size_t i) { return static_cast<size_t>(edges[i].to); });
  size_t next_set = 1;
  for (size_t cord = 0; cord < cords.n_sets(); ++cord) {
    for (const int32_t edge : cords.members(cord)) states.mark(edges[static_cast<size_t>(edge)].from);
    states.split();
    for (; next_set < states.n_sets(); ++next_set) {
      for (const int32_t state : states.members(next_set))
        for (const int32_t edge : into.of(state)) cords.mark(edge);
      cords.split();
    }
  }
  return states;
}

/// Builds the minimized automaton. It has one state for each set of equivalent states, if the start reaches
/// the set. The states are numbered in the order in which they are reached.
class Quotient {
 public:
  Quotient(const Dfa& dfa, const Partition& states, const std::vector<uint8_t>& can_end)
      : dfa_(dfa), states_(states), can_end_(can_end), number_(states.n_sets(), -1) {
    number_of(0);
    for (size_t i = 0; i < representatives_.size(); ++i) write(representatives_[i]);
  }
  Dfa take() { return std::move(out_); }

 private:
  int32_t number_of(int32_t state) {
    int32_t& number = number_[static_cast<size_t>(states_.set_of(state))];
    if (number < 0) {
      number = static_cast<int32_t>(representatives_.size());
      representatives_.push_back(state);
    }
    return number;
  }
  void write(int32_t state) {
    for (const Dfa::ByteEdge& edge : dfa_.bytes_of(state))
      if (can_end_[static_cast<size_t>(edge.to)])
        out_.add_byte_edge({edge.first, edge.last, number_of(edge.to)});
    for (const Dfa::CallEdge& edge : dfa_.calls_of(state))
      if (can_end_[static_cast<size_t>(edge.to)]) out_.call_edges.push_back({edge.rule, number_of(edge.to)});
    out_.end_state(dfa_.accepting[static_cast<size_t>(state)] != 0);
  }

  const Dfa& dfa_;
  const Partition& states_;
  const std::vector<uint8_t>& can_end_;
  std::vector<int32_t> number_, representatives_;
  Dfa out_;
};

}  // namespace

Dfa minimize(const Dfa& dfa, CompileBudget& budget) {
  if (dfa.byte_edges.size() > kMostEdges) return dfa;
  const std::vector<uint8_t> can_end = states_that_can_end(dfa);
  const std::vector<Edge> edges = labeled_edges(dfa, Letters(dfa), can_end, budget);
  const Partition states = equivalent_states(dfa, edges, can_end);
  return Quotient(dfa, states, can_end).take();
}

}  // namespace hearth
