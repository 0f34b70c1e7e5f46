// Builds an automaton from a grammar, in stages: see the header.
#include "engine/constraint/automaton/automaton.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/constraint/automaton/nfa.h"
#include "engine/constraint/automaton/rule_linker.h"
#include "engine/constraint/compile_budget.h"
#include "engine/constraint/grammar/facts.h"

namespace hearth {
namespace {

/// Returns one automaton per rule, [n_rules]. The automaton is empty if its rule is not reachable or is
/// copied into its callers.
std::vector<Dfa> compile_rules(const Grammar& grammar, const GrammarFacts& facts, CompileBudget& budget) {
  NfaBuilder builder(grammar, facts, budget);
  std::vector<Dfa> rules(grammar.n_rules());
  for (const Grammar::Rule rule : facts.reachable) {
    if (facts.is_small[static_cast<size_t>(rule)] && rule != grammar.root()) continue;
    budget.enter(grammar.name(rule));
    rules[static_cast<size_t>(rule)] =
        minimize(determinize(builder.build(grammar.body(rule)), facts.nullable, budget), budget);
  }
  return rules;
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of x.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// Returns prefix sums of 256 weights, one odd random number for each byte. The weight of a byte range is the
/// difference of two sums, so it does not depend on how many edges cover the range.
std::array<uint64_t, 257> byte_weights() {
  std::array<uint64_t, 257> sums{};
  for (size_t b = 0; b < 256; ++b) sums[b + 1] = sums[b] + (mix(0x9E3779B97F4A7C15 * (b + 1)) | 1);
  return sums;
}

}  // namespace

Automaton::Automaton(const Grammar& grammar, size_t view_bytes, CompileBudget budget) {
  const GrammarFacts facts = find_facts(grammar);
  const std::vector<Dfa> rules = compile_rules(grammar, facts, budget);
  LinkedRules linked = link_rules(grammar, rules);
  dfa_ = std::move(linked.dfa);
  start_ = linked.start;
  call_rank_ = std::move(linked.call_rank);
  root_nullable_ = facts.nullable[static_cast<size_t>(grammar.root())] != 0;
  find_classes();
  find_views(view_bytes);
}

int32_t Automaton::next(int32_t state, uint8_t byte) const {
  const std::span<const Dfa::ByteEdge> edges = bytes_of(state);
  const auto edge = std::lower_bound(edges.begin(), edges.end(), byte,
                                     [](const Dfa::ByteEdge& e, uint8_t b) { return e.last < b; });
  return edge != edges.end() && edge->first <= byte ? edge->to : -1;
}

void Automaton::find_classes() {
  std::array<bool, 257> begins{};
  for (const Dfa::ByteEdge& edge : dfa_.byte_edges) begins[edge.first] = begins[edge.last + size_t{1}] = true;
  size_t last = 0;
  for (size_t b = 1; b < 256; ++b) {
    if (begins[b]) ++last;
    class_of_byte_[b] = static_cast<uint8_t>(last);
  }
  n_classes_ = last + 1;
}

/// Moore's partition refinement, stopped after view_bytes rounds. It uses a 64-bit hash per state instead of
/// a class number. With 150,000 states, the probability that two hashes collide is 10^-9. After a collision,
/// a mask can offer tokens that accept() refuses.
void Automaton::find_views(size_t view_bytes) {
  static const std::array<uint64_t, 257> kWeights = byte_weights();
  const auto n = static_cast<size_t>(n_states());
  std::vector<uint64_t> hash(n), next_hash(n);
  for (size_t s = 0; s < n; ++s) hash[s] = mix(1 + dfa_.accepting[s]);
  for (size_t round = 0; round < view_bytes; ++round) {
    for (size_t s = 0; s < n; ++s) {
      uint64_t sum = dfa_.accepting[s];
      for (const Dfa::ByteEdge& edge : bytes_of(static_cast<int32_t>(s)))
        sum += hash[static_cast<size_t>(edge.to)] * (kWeights[edge.last + size_t{1}] - kWeights[edge.first]);
      for (const Dfa::CallEdge& edge : calls_of(static_cast<int32_t>(s)))
        sum += mix(hash[static_cast<size_t>(edge.to)] ^ mix(static_cast<uint64_t>(edge.rule) + 3));
      next_hash[s] = mix(sum);
    }
    hash.swap(next_hash);
  }
  std::unordered_map<uint64_t, int32_t> numbers;
  for (const uint64_t h : hash)
    view_.push_back(numbers.try_emplace(h, static_cast<int32_t>(numbers.size())).first->second);
  n_views_ = static_cast<int32_t>(numbers.size());
}

}  // namespace hearth
