// Thompson's construction: see the header.
#include "engine/constraint/automaton/nfa.h"

#include <algorithm>
#include <string>

namespace hearth {
namespace {

using Expr = Grammar::Expr;
using Node = Grammar::Node;
using Kind = Grammar::Node::Kind;

/// Maximum nesting depth of the expressions for which automaton_of() builds separate automata. Such automata
/// are built by recursion, and each level takes a few hundred bytes of stack.
constexpr int kMostDepth = 500;
/// An expression that is repeated at least this many times is minimized before it is copied.
constexpr int kManyCopies = 8;
constexpr int kMostRepeatsApart = 20;  // maximum nesting depth of repeats that are built separately

}  // namespace

/// A job adds edges that match `expr` between the states `from` and `to`. Jobs wait in a vector instead of
/// calling each other, so deep expressions need no stack. If `from` and `to` are different states, no edge
/// that a job adds leads into `from`.
struct NfaBuilder::Job {
  Expr expr;
  int32_t from, to;
};

class NfaBuilder::Build {
 public:
  Build(NfaBuilder& builder, Place place) : builder_(builder), grammar_(builder.grammar_), place_(place) {}

  Nfa run(Expr body) {
    add(body, Nfa::kStart, Nfa::kEnd);
    while (!jobs_.empty()) {
      const Job job = jobs_.back();
      jobs_.pop_back();
      build(job, grammar_.node(job.expr));
    }
    return std::move(nfa_);
  }

 private:
  int32_t new_state() {
    builder_.budget_.take_work(8);
    return nfa_.n_states++;
  }
  void add(Expr expr, int32_t from, int32_t to) {
    builder_.budget_.take_work();
    jobs_.push_back({expr, from, to});
  }
  void add_empty(int32_t from, int32_t to) {
    if (from != to) nfa_.edges.push_back({from, to, Nfa::kEmpty, 0, 0});
  }
  void add_bytes(int32_t from, int32_t to, uint8_t first, uint8_t last) {
    builder_.budget_.take_work();
    nfa_.edges.push_back({from, to, Nfa::kBytes, first, last});
  }

  void add_call(int32_t from, int32_t to, int32_t rule) {
    builder_.budget_.take_work();
    nfa_.edges.push_back({from, to, rule, 0, 0});
  }

  void build(const Job& job, const Node& node) {
    switch (node.kind) {
      case Kind::kEmpty:
        return add_empty(job.from, job.to);
      case Kind::kNothing:
        return;
      case Kind::kBytes:
        return build_literal(job, grammar_.bytes(node));
      case Kind::kSet:
        for (const auto& [first, last] : builder_.ranges_of(node)) add_bytes(job.from, job.to, first, last);
        return;
      case Kind::kSequence:
        return build_sequence(job, grammar_.children(node));
      case Kind::kChoice:
        for (const Expr option : grammar_.children(node)) add(option, job.from, job.to);
        return;
      case Kind::kRepeat:
        return build_repeat(job, grammar_.children(node)[0], node.least, node.most);
      case Kind::kCall:
        return build_call(job, grammar_.callee(node));
      case Kind::kBoth:
      case Kind::kExcept:
        return insert(builder_.automaton_of(job.expr, place_), job.from, job.to);
    }
  }

  void build_literal(const Job& job, std::string_view bytes) {
    int32_t from = job.from;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const int32_t to = i + 1 == bytes.size() ? job.to : new_state();
      const auto byte = static_cast<uint8_t>(bytes[i]);
      add_bytes(from, to, byte, byte);
      from = to;
    }
  }

  void build_sequence(const Job& job, std::span<const Expr> parts) {
    int32_t from = job.from;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int32_t to = i + 1 == parts.size() ? job.to : new_state();
      add(parts[i], from, to);
      from = to;
    }
    if (parts.empty()) add_empty(job.from, job.to);
  }

  /// Adds the required copies first. If there is no maximum, a loop follows them. Otherwise one copy for each
  /// optional repeat follows, and the text may leave the repeat before each of these copies.
  void build_repeat(const Job& job, Expr what, int least, int most) {
    if (most != Grammar::kNoMaximum && most < least) return;  // no count satisfies both limits
    const Dfa* small = std::max(least, most) >= kManyCopies ? made_small(what) : nullptr;
    int32_t from = job.from;
    for (int i = 0; i < least; ++i) from = add_copy(what, small, from);
    for (int i = least; i < most; ++i) {
      add_empty(from, job.to);
      from = add_copy(what, small, from);
    }
    if (most != Grammar::kNoMaximum) return add_empty(from, job.to);
    const int32_t loop = new_state();
    add_empty(from, loop);
    add(what, loop, loop);
    add_empty(loop, job.to);
  }
  /// Returns the minimized automaton of the expression, or null if the expression is small already or nested
  /// too deep.
  const Dfa* made_small(Expr what) {
    const Kind kind = grammar_.node(what).kind;
    const bool is_compound = kind == Kind::kSequence || kind == Kind::kChoice || kind == Kind::kRepeat ||
                             (kind == Kind::kCall && is_copied(grammar_.callee(grammar_.node(what))));
    return is_compound && place_.depth < kMostRepeatsApart ? &builder_.automaton_of(what, place_) : nullptr;
  }
  int32_t add_copy(Expr what, const Dfa* small, int32_t from) {
    const int32_t to = new_state();
    if (small != nullptr)
      insert(*small, from, to);
    else
      add(what, from, to);
    return to;
  }

  void build_call(const Job& job, Grammar::Rule callee) {
    if (place_.in_product)
      throw ConstraintError(
          "The rule \"" + grammar_.name(callee) +
              "\" is called in an intersection or a difference, which may only hold regular "
              "expressions; write its body there.",
          "");
    if (is_copied(callee)) return add(grammar_.body(callee), job.from, job.to);
    add_call(job.from, job.to, static_cast<int32_t>(callee));
  }

  bool is_copied(Grammar::Rule callee) const {
    return builder_.facts_.is_small[static_cast<size_t>(callee)] != 0;
  }

  void insert(const Dfa& dfa, int32_t from, int32_t to) {
    const int32_t base = nfa_.n_states;
    add_empty(from, base);
    for (int32_t s = 0; s < dfa.n_states(); ++s) {
      new_state();
      for (const Dfa::ByteEdge& edge : dfa.bytes_of(s))
        add_bytes(base + s, base + edge.to, edge.first, edge.last);
      for (const Dfa::CallEdge& edge : dfa.calls_of(s)) add_call(base + s, base + edge.to, edge.rule);
      if (dfa.accepting[static_cast<size_t>(s)]) add_empty(base + s, to);
    }
  }

  NfaBuilder& builder_;
  const Grammar& grammar_;
  const Place place_;
  std::vector<Job> jobs_;
  Nfa nfa_;
};

Nfa NfaBuilder::build(Expr body) { return build(body, Place{}); }

Nfa NfaBuilder::build(Expr body, Place place) { return Build(*this, place).run(body); }

const Dfa& NfaBuilder::automaton_of(Expr expr, Place place) {
  if (place.depth == kMostDepth)
    throw ConstraintError("The grammar nests more than " + std::to_string(kMostDepth) +
                              " intersections and differences in one another; make it flatter.",
                          "");
  const auto key = std::pair(expr, place.in_product);
  const auto found = automata_.find(key);
  if (found != automata_.end()) return found->second;
  ++place.depth;
  return automata_.emplace(key, make_automaton(expr, place)).first->second;
}

Dfa NfaBuilder::make_automaton(Expr expr, Place place) {
  const auto small = [&](Expr part) {
    return minimize(determinize(build(part, place), facts_.nullable, budget_), budget_);
  };
  const Node& node = grammar_.node(expr);
  if (node.kind != Kind::kBoth && node.kind != Kind::kExcept) return small(expr);
  place.in_product = true;
  const Dfa a = small(grammar_.children(node)[0]), b = small(grammar_.children(node)[1]);
  return product(a, b, node.kind == Kind::kBoth ? DfaProduct::kBoth : DfaProduct::kExcept, budget_);
}

std::span<const std::pair<uint8_t, uint8_t>> NfaBuilder::ranges_of(const Node& set) {
  const auto [at, is_new] = ranges_.try_emplace(set.first);
  if (!is_new) return at->second;
  const ByteSet& bytes = grammar_.set(set);
  for (size_t b = 0; b < 256; ++b) {
    if (!bytes[b]) continue;
    if (b > 0 && bytes[b - 1])
      at->second.back().second = static_cast<uint8_t>(b);
    else
      at->second.emplace_back(static_cast<uint8_t>(b), static_cast<uint8_t>(b));
  }
  return at->second;
}

}  // namespace hearth
