// The subset construction: see determinize() in nfa.h.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/constraint/automaton/nfa.h"

namespace hearth {
namespace {

using States = std::vector<int32_t>;

/// Assigns a number to each set of states. One array holds the members of all sets.
class SetNumbers {
 public:
  SetNumbers() : numbers_(16, Hash{this}, Equal{this}) {}
  SetNumbers(const SetNumbers&) = delete;
  SetNumbers& operator=(const SetNumbers&) = delete;

  size_t size() const { return begin_.size() - 1; }
  std::span<const int32_t> members(int32_t number) const {
    const auto n = static_cast<size_t>(number);
    return std::span(members_).subspan(begin_[n], begin_[n + 1] - begin_[n]);
  }
  /// states: ascending, no duplicates.
  int32_t number_of(const States& states) {
    // First append the new set. Remove it again if an equal set exists.
    members_.insert(members_.end(), states.begin(), states.end());
    begin_.push_back(members_.size());
    const auto [at, is_new] = numbers_.insert(static_cast<int32_t>(size()) - 1);
    if (!is_new) {
      begin_.pop_back();
      members_.resize(begin_.back());
    }
    return *at;
  }

 private:
  struct Hash {
    const SetNumbers* sets;
    size_t operator()(int32_t number) const {
      uint64_t hash = 0xCBF29CE484222325;  // FNV-1a over numbers instead of bytes
      for (const int32_t state : sets->members(number))
        hash = (hash ^ static_cast<uint32_t>(state)) * 0x100000001B3;
      return hash ^ (hash >> 29);
    }
  };
  struct Equal {
    const SetNumbers* sets;
    bool operator()(int32_t a, int32_t b) const {
      const std::span<const int32_t> x = sets->members(a), y = sets->members(b);
      return std::equal(x.begin(), x.end(), y.begin(), y.end());
    }
  };

  std::vector<int32_t> members_;
  std::vector<size_t> begin_{0};
  std::unordered_set<int32_t, Hash, Equal> numbers_;
};

class Subsets {
 public:
  Subsets(const Nfa& nfa, const std::vector<uint8_t>& nullable, CompileBudget& budget)
      : nfa_(nfa), nullable_(nullable), budget_(budget), begin_(static_cast<size_t>(nfa.n_states) + 1) {
    order_edges();
    seen_.resize(static_cast<size_t>(nfa.n_states), -1);
    States start{Nfa::kStart};
    number_of(start);
    for (size_t i = 0; i < subsets_.size(); ++i) write(static_cast<int32_t>(i));
  }
  Dfa take() { return std::move(out_); }

 private:
  /// Sorts edges by their source state.
  void order_edges() {
    for (const Nfa::Edge& edge : nfa_.edges) ++begin_[static_cast<size_t>(edge.from) + 1];
    for (size_t s = 1; s < begin_.size(); ++s) begin_[s] += begin_[s - 1];
    edges_.resize(nfa_.edges.size());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (const Nfa::Edge& edge : nfa_.edges) edges_[next[static_cast<size_t>(edge.from)]++] = edge;
  }

  /// Returns the number of the subset that consists of `states`. Empties `states`.
  int32_t number_of(States& states) {
    std::sort(states.begin(), states.end());
    states.erase(std::unique(states.begin(), states.end()), states.end());
    budget_.take_work(states.size());
    const size_t n_before = subsets_.size();
    const int32_t number = subsets_.number_of(states);
    if (subsets_.size() > n_before) budget_.take_state();
    states.clear();
    return number;
  }

  void write(int32_t subset) {
    close(subsets_.members(subset), subset);
    const bool accepting = seen_[Nfa::kEnd] == subset;
    write_byte_edges();
    write_call_edges();
    out_.end_state(accepting);
  }

  /// Fills closure_ with the states of a subset and all states that empty edges lead to. Fills bytes_ and
  /// calls_ with the edges of these states.
  void close(std::span<const int32_t> states, int32_t stamp) {
    closure_.clear();
    bytes_.clear();
    calls_.clear();
    for (const int32_t state : states) reach(state, stamp);
    for (size_t i = 0; i < closure_.size(); ++i) {
      const auto state = static_cast<size_t>(closure_[i]);
      budget_.take_work(1 + begin_[state + 1] - begin_[state]);
      for (size_t e = begin_[state]; e < begin_[state + 1]; ++e) follow(edges_[e], stamp);
    }
  }
  void reach(int32_t state, int32_t stamp) {
    if (std::exchange(seen_[static_cast<size_t>(state)], stamp) != stamp) closure_.push_back(state);
  }
  void follow(const Nfa::Edge& edge, int32_t stamp) {
    if (edge.rule == Nfa::kBytes) {
      bytes_.push_back(&edge);
    } else if (edge.rule == Nfa::kEmpty) {
      reach(edge.to, stamp);
    } else {
      calls_.emplace_back(edge.rule, edge.to);
      if (nullable_[static_cast<size_t>(edge.rule)]) reach(edge.to, stamp);
    }
  }

  /// Cuts the byte range 0 to 255 wherever an edge begins or ends, and writes an edge for each part that has
  /// a target.
  void write_byte_edges() {
    std::array<bool, 257> cuts{};
    cuts[0] = cuts[256] = true;
    for (const Nfa::Edge* edge : bytes_) cuts[edge->first] = cuts[edge->last + size_t{1}] = true;
    std::array<size_t, 257> piece_of{};
    std::array<size_t, 257> first_of{};
    size_t n_pieces = 0;
    for (size_t b = 0; b < 257; ++b) {
      if (cuts[b]) first_of[n_pieces++] = b;
      piece_of[b] = n_pieces - 1;
    }
    for (const Nfa::Edge* edge : bytes_) {
      budget_.take_work(piece_of[edge->last] - piece_of[edge->first] + 1);
      for (size_t piece = piece_of[edge->first]; piece <= piece_of[edge->last]; ++piece)
        targets_[piece].push_back(edge->to);
    }
    for (size_t piece = 0; piece + 1 < n_pieces; ++piece) {
      if (targets_[piece].empty()) continue;
      const int32_t to = number_of(targets_[piece]);
      out_.add_byte_edge(
          {static_cast<uint8_t>(first_of[piece]), static_cast<uint8_t>(first_of[piece + 1] - 1), to});
    }
  }

  void write_call_edges() {
    std::sort(calls_.begin(), calls_.end());
    for (size_t i = 0; i < calls_.size();) {
      const int32_t rule = calls_[i].first;
      for (; i < calls_.size() && calls_[i].first == rule; ++i) called_.push_back(calls_[i].second);
      out_.call_edges.push_back({rule, number_of(called_)});
    }
  }

  const Nfa& nfa_;
  const std::vector<uint8_t>& nullable_;
  CompileBudget& budget_;
  std::vector<Nfa::Edge> edges_;
  std::vector<size_t> begin_;
  SetNumbers subsets_;
  std::vector<int32_t> seen_;  // [state] the last subset whose closure has the state
  States closure_, called_;
  std::vector<const Nfa::Edge*> bytes_;
  std::vector<std::pair<int32_t, int32_t>> calls_;
  std::array<States, 257> targets_;
  Dfa out_;
};

}  // namespace

Dfa determinize(const Nfa& nfa, const std::vector<uint8_t>& nullable, CompileBudget& budget) {
  return Subsets(nfa, nullable, budget).take();
}

}  // namespace hearth
