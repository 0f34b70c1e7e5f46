// Joins, prunes and checks rules: see the header.
#include "engine/constraint/automaton/rule_linker.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace hearth {
namespace {

size_t at(int32_t i) { return static_cast<size_t>(i); }

/// The states of all rules in one array. The `rule` of a call edge is the number of the called rule.
struct Joined {
  Dfa dfa;
  std::vector<int32_t> start;    // [n_rules], -1 if the rule has no states
  std::vector<int32_t> rule_of;  // [n_states]
};

void append(Joined& joined, const Dfa& dfa, int32_t rule) {
  const int32_t base = joined.dfa.n_states();
  for (int32_t s = 0; s < dfa.n_states(); ++s) {
    for (const Dfa::ByteEdge& edge : dfa.bytes_of(s))
      joined.dfa.byte_edges.push_back({edge.first, edge.last, base + edge.to});
    for (const Dfa::CallEdge& edge : dfa.calls_of(s))
      joined.dfa.call_edges.push_back({edge.rule, base + edge.to});
    joined.dfa.end_state(dfa.accepting[at(s)] != 0);
    joined.rule_of.push_back(rule);
  }
}

/// Makes the start of a rule non-accepting. If an edge leads back to the start, the start stays unchanged,
/// and a non-accepting copy becomes the new start.
void separate_start(Joined& joined, const Dfa& dfa, int32_t rule) {
  int32_t& start = joined.start[at(rule)];
  if (!joined.dfa.accepting[at(start)]) return;
  const auto leads_back = [](const auto& edge) { return edge.to == 0; };
  if (std::none_of(dfa.byte_edges.begin(), dfa.byte_edges.end(), leads_back) &&
      std::none_of(dfa.call_edges.begin(), dfa.call_edges.end(), leads_back)) {
    joined.dfa.accepting[at(start)] = 0;
    return;
  }
  const int32_t base = start;
  start = joined.dfa.n_states();
  for (const Dfa::ByteEdge& edge : dfa.bytes_of(0))
    joined.dfa.byte_edges.push_back({edge.first, edge.last, base + edge.to});
  for (const Dfa::CallEdge& edge : dfa.calls_of(0))
    joined.dfa.call_edges.push_back({edge.rule, base + edge.to});
  joined.dfa.end_state(false);
  joined.rule_of.push_back(rule);
}

Joined join(const std::vector<Dfa>& rules) {
  Joined joined;
  for (size_t r = 0; r < rules.size(); ++r) {
    joined.start.push_back(rules[r].n_states() > 0 ? joined.dfa.n_states() : -1);
    append(joined, rules[r], static_cast<int32_t>(r));
    if (joined.start.back() >= 0) separate_start(joined, rules[r], static_cast<int32_t>(r));
  }
  return joined;
}

/// Finds the states from which the end of their rule can be reached. A byte edge can always be followed. A
/// call edge can be followed only once the end of the called rule is known to be reachable.
class Endings {
 public:
  explicit Endings(const Joined& joined)
      : joined_(joined),
        can_end_(joined.dfa.accepting),
        sources_(can_end_.size()),
        returns_(can_end_.size()),
        callers_(joined.start.size()) {
    for (int32_t s = 0; s < joined.dfa.n_states(); ++s) {
      for (const Dfa::ByteEdge& edge : joined.dfa.bytes_of(s)) sources_[at(edge.to)].push_back(s);
      for (const Dfa::CallEdge& edge : joined.dfa.calls_of(s)) {
        callers_[at(edge.rule)].emplace_back(s, edge.to);
        returns_[at(edge.to)].emplace_back(s, edge.rule);
      }
      if (can_end_[at(s)]) news_.push_back(s);
    }
    while (!news_.empty()) {
      const int32_t state = news_.back();
      news_.pop_back();
      tell(state);
    }
  }

  bool can_end(int32_t state) const { return can_end_[at(state)] != 0; }
  bool can_match(int32_t rule) const {
    const int32_t start = joined_.start[at(rule)];
    return start >= 0 && can_end(start);
  }

 private:
  void tell(int32_t state) {
    for (const int32_t source : sources_[at(state)]) set(source);
    for (const auto& [source, rule] : returns_[at(state)])
      if (can_match(rule)) set(source);
    const int32_t rule = joined_.rule_of[at(state)];
    if (joined_.start[at(rule)] != state) return;
    for (const auto& [source, to] : callers_[at(rule)])
      if (can_end(to)) set(source);
  }
  void set(int32_t state) {
    if (std::exchange(can_end_[at(state)], uint8_t{1}) == 0) news_.push_back(state);
  }

  const Joined& joined_;
  std::vector<uint8_t> can_end_;
  std::vector<std::vector<int32_t>> sources_;  // [n_states] the states with a byte edge to this state
  // [n_states] the calls that continue in this state, as pairs of calling state and called rule
  std::vector<std::vector<std::pair<int32_t, int32_t>>> returns_;
  // [n_rules] the calls of this rule, as pairs of calling state and continuation
  std::vector<std::vector<std::pair<int32_t, int32_t>>> callers_;
  std::vector<int32_t> news_;
};

/// Copies the states that are reachable from the root's start and from which their rule can end.
class Pruned {
 public:
  Pruned(const Joined& joined, const Endings& endings, int32_t root)
      : joined_(joined), endings_(endings), number_(joined.rule_of.size(), -1) {
    out_.start = number_of(joined.start[at(root)]);
    for (size_t i = 0; i < states_.size(); ++i) write(states_[i]);
  }
  LinkedRules take() { return std::move(out_); }
  /// Returns the rule of each state in the result.
  std::vector<int32_t> rules() const {
    std::vector<int32_t> rules;
    for (const int32_t state : states_) rules.push_back(joined_.rule_of[at(state)]);
    return rules;
  }

 private:
  int32_t number_of(int32_t state) {
    if (number_[at(state)] < 0) {
      number_[at(state)] = static_cast<int32_t>(states_.size());
      states_.push_back(state);
    }
    return number_[at(state)];
  }
  void write(int32_t state) {
    for (const Dfa::ByteEdge& edge : joined_.dfa.bytes_of(state))
      if (endings_.can_end(edge.to)) out_.dfa.add_byte_edge({edge.first, edge.last, number_of(edge.to)});
    for (const Dfa::CallEdge& edge : joined_.dfa.calls_of(state))
      if (endings_.can_end(edge.to) && endings_.can_match(edge.rule))
        out_.dfa.call_edges.push_back({number_of(joined_.start[at(edge.rule)]), number_of(edge.to)});
    out_.dfa.end_state(joined_.dfa.accepting[at(state)] != 0);
  }

  const Joined& joined_;
  const Endings& endings_;
  std::vector<int32_t> number_, states_;
  LinkedRules out_;
};

/// Ranks the start states. Follows calls from start to start, depth first. A cycle of such calls is left
/// recursion. Callees are finished before their callers and get higher ranks.
std::vector<int32_t> rank_calls(const Grammar& grammar, const Dfa& dfa, const std::vector<int32_t>& rule_of) {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> status(rule_of.size(), kNew);
  std::vector<int32_t> rank(rule_of.size(), 0);
  int32_t next_rank = dfa.n_states();
  // start states on the path, each with the number of its calls that were followed so far
  std::vector<std::pair<int32_t, size_t>> path;
  const auto enter = [&](int32_t start) {
    status[at(start)] = kOpen;
    path.emplace_back(start, 0);
  };
  for (const Dfa::CallEdge& call : dfa.call_edges) {
    if (status[at(call.rule)] == kNew) enter(call.rule);
    while (!path.empty()) {
      auto& [start, next] = path.back();
      if (next == dfa.calls_of(start).size()) {
        status[at(start)] = kDone;
        rank[at(start)] = next_rank--;
        path.pop_back();
        continue;
      }
      const int32_t callee = dfa.calls_of(start)[next++].rule;
      if (status[at(callee)] == kOpen)
        throw ConstraintError(
            "The rule \"" + grammar.name(static_cast<Grammar::Rule>(rule_of[at(callee)])) +
                "\" begins with itself (left recursion), which is not supported; write the repetition "
                "with * or +, or let the rule call itself at its end.",
            "");
      if (status[at(callee)] == kNew) enter(callee);
    }
  }
  return rank;
}

}  // namespace

LinkedRules link_rules(const Grammar& grammar, const std::vector<Dfa>& rules) {
  const auto root = static_cast<int32_t>(grammar.root());
  const bool root_nullable = rules[at(root)].accepting[0] != 0;
  const Joined joined = join(rules);
  const Endings endings(joined);
  if (!endings.can_match(root) && !root_nullable)
    throw ConstraintError("The grammar matches no text at all; its alternatives exclude everything.", "");
  Pruned pruned(joined, endings, root);
  LinkedRules linked = pruned.take();
  linked.call_rank = rank_calls(grammar, linked.dfa, pruned.rules());
  return linked;
}

}  // namespace hearth
