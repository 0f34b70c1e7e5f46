// Computes facts about rules in passes over the grammar's nodes; the header describes them.
#include "engine/constraint/grammar/facts.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace hearth {
namespace {

using Expr = Grammar::Expr;
using Node = Grammar::Node;
using Kind = Grammar::Node::Kind;

size_t index(Expr expr) { return static_cast<size_t>(expr); }
size_t index(Grammar::Rule rule) { return static_cast<size_t>(rule); }

/// Returns the expressions that a node consists of. For a call, this is the body of the called rule.
std::vector<Expr> parts(const Grammar& grammar, const Node& node) {
  switch (node.kind) {
    case Kind::kEmpty:
    case Kind::kNothing:
    case Kind::kBytes:
    case Kind::kSet:
      return {};
    case Kind::kRepeat:
      return {grammar.children(node)[0]};
    case Kind::kCall:
      return {grammar.body(grammar.callee(node))};
    default: {
      const std::span<const Expr> all = grammar.children(node);
      return {all.begin(), all.end()};
    }
  }
}

/// Finds all nodes and rules that are reachable from the root.
class Walk {
 public:
  explicit Walk(const Grammar& grammar)
      : grammar_(grammar), seen_(grammar.n_nodes()), rule_seen_(grammar.n_rules()) {
    note_rule(grammar.root());
    note(grammar.body(grammar.root()));
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (const Expr part : parts(grammar_, grammar_.node(nodes_[i]))) note(part);
  }

  const std::vector<Expr>& nodes() const { return nodes_; }
  const std::vector<Grammar::Rule>& rules() const { return rules_; }

 private:
  void note_rule(Grammar::Rule rule) {
    if (std::exchange(rule_seen_[index(rule)], uint8_t{1}) == 0) rules_.push_back(rule);
  }
  void note(Expr expr) {
    if (std::exchange(seen_[index(expr)], uint8_t{1}) != 0) return;
    nodes_.push_back(expr);
    const Node& node = grammar_.node(expr);
    if (node.kind == Kind::kCall) note_rule(grammar_.callee(node));
  }

  const Grammar& grammar_;
  std::vector<uint8_t> seen_, rule_seen_;
  std::vector<Expr> nodes_;
  std::vector<Grammar::Rule> rules_;
};

/// Finds the nodes for which a property holds, such as that they can match the empty text. The caller sets
/// the property for leaves. The property holds for a sequence if it holds for all parts, for a choice if it
/// holds for one option, for a repeat if it holds for the part or if the part may occur zero times, and for a
/// call if it holds for the callee's body. The result is the least solution of these rules.
class LeastSolution {
 public:
  /// truth: [n_nodes] the initial values, which the caller sets for leaves and for kBoth and kExcept nodes.
  LeastSolution(const Grammar& grammar, const std::vector<Expr>& nodes, std::vector<uint8_t> truth)
      : grammar_(grammar),
        truth_(std::move(truth)),
        missing_(grammar.n_nodes()),
        first_user_(grammar.n_nodes() + 1) {
    list_users(nodes);
    for (const Expr expr : nodes)
      if (truth_[index(expr)] || holds_at_once(grammar.node(expr))) set(expr);
    while (!news_.empty()) {
      const Expr expr = news_.back();
      news_.pop_back();
      for (size_t i = first_user_[index(expr)]; i < first_user_[index(expr) + 1]; ++i) tell(users_[i]);
    }
  }

  bool holds(Expr expr) const { return truth_[index(expr)] != 0; }

 private:
  static bool follows_parts(Kind kind) {
    return kind == Kind::kSequence || kind == Kind::kChoice || kind == Kind::kRepeat || kind == Kind::kCall;
  }
  static bool holds_at_once(const Node& node) {
    return (node.kind == Kind::kRepeat && node.least == 0) ||
           (node.kind == Kind::kSequence && node.count == 0);
  }

  /// For each node, lists the nodes that contain it. Also sets each node's missing_, the number of its parts
  /// that must be found to have the property before the node has it: all parts of a sequence, one part of any
  /// other node.
  void list_users(const std::vector<Expr>& nodes) {
    for (const Expr expr : nodes) {
      const Node& node = grammar_.node(expr);
      if (!follows_parts(node.kind)) continue;
      const std::vector<Expr> all = parts(grammar_, node);
      missing_[index(expr)] = node.kind == Kind::kSequence ? static_cast<int32_t>(all.size()) : 1;
      for (const Expr part : all) ++first_user_[index(part) + 1];
    }
    for (size_t i = 1; i < first_user_.size(); ++i) first_user_[i] += first_user_[i - 1];
    users_.resize(first_user_.back());
    std::vector<size_t> next(first_user_.begin(), first_user_.end() - 1);
    for (const Expr expr : nodes) {
      const Node& node = grammar_.node(expr);
      if (!follows_parts(node.kind)) continue;
      for (const Expr part : parts(grammar_, node)) users_[next[index(part)]++] = expr;
    }
  }

  void set(Expr expr) {
    truth_[index(expr)] = 1;
    news_.push_back(expr);
  }
  void tell(Expr user) {
    if (--missing_[index(user)] == 0 && !truth_[index(user)]) set(user);
  }

  const Grammar& grammar_;
  std::vector<uint8_t> truth_;
  std::vector<int32_t> missing_;
  std::vector<size_t> first_user_;
  std::vector<Expr> users_, news_;
};

/// Facts about a node. They are computed from the node's parts, which have lower indices.
struct Shape {
  uint32_t weight = 0;  // estimated number of automaton states, at most kHeavy
  bool has_call = false, has_loop = false, nullable = false;
};
constexpr uint32_t kHeavy = 1000;

Shape shape_of(const Grammar& grammar, const Node& node, const std::vector<Shape>& shapes) {
  Shape shape;
  shape.weight = node.kind == Kind::kBytes ? static_cast<uint32_t>(std::min(node.count, 1000)) : 1;
  shape.has_call = node.kind == Kind::kCall;
  shape.has_loop = node.kind == Kind::kRepeat && node.most == Grammar::kNoMaximum;
  bool all_nullable = true, one_nullable = false;
  if (node.kind != Kind::kCall) {
    for (const Expr part : parts(grammar, node)) {
      const Shape& its = shapes[index(part)];
      shape.weight = std::min(kHeavy, shape.weight + its.weight);
      shape.has_call |= its.has_call;
      shape.has_loop |= its.has_loop;
      all_nullable &= its.nullable;
      one_nullable |= its.nullable;
    }
  }
  const auto nth_nullable = [&](size_t n) { return shapes[index(grammar.children(node)[n])].nullable; };
  switch (node.kind) {
    case Kind::kEmpty:
      shape.nullable = true;
      break;
    case Kind::kSequence:
    case Kind::kBoth:
      shape.nullable = all_nullable;
      break;
    case Kind::kChoice:
      shape.nullable = one_nullable;
      break;
    case Kind::kExcept:
      shape.nullable = nth_nullable(0) && !nth_nullable(1);
      break;
    case Kind::kRepeat: {
      const int times = node.most == Grammar::kNoMaximum ? node.least + 1 : node.most;
      shape.weight =
          std::min<uint32_t>(kHeavy, shape.weight * static_cast<uint32_t>(std::clamp(times, 1, 1000)));
      shape.nullable = node.least == 0 || one_nullable;
      break;
    }
    default:
      break;
  }
  return shape;
}

std::vector<Shape> find_shapes(const Grammar& grammar) {
  std::vector<Shape> shapes(grammar.n_nodes());
  for (size_t i = 0; i < shapes.size(); ++i)
    shapes[i] = shape_of(grammar, grammar.node(static_cast<Expr>(i)), shapes);
  return shapes;
}

/// Whether a rule is copied into its callers: it has no calls, and a copy costs less than a call. The size
/// limit is lower for rules with loops, such as strings. If such a rule is not copied, all its callers share
/// its masks.
bool is_small(const Shape& shape) { return !shape.has_call && shape.weight <= (shape.has_loop ? 8U : 64U); }

LeastSolution solve_endings(const Grammar& grammar, const std::vector<Expr>& nodes) {
  std::vector<uint8_t> leaves(grammar.n_nodes());
  for (const Expr expr : nodes) {
    const Kind kind = grammar.node(expr).kind;
    leaves[index(expr)] =
        kind != Kind::kSequence && kind != Kind::kChoice && kind != Kind::kRepeat && kind != Kind::kCall;
  }
  return {grammar, nodes, std::move(leaves)};
}

LeastSolution solve_nullable(const Grammar& grammar, const std::vector<Expr>& nodes,
                             const std::vector<Shape>& shapes) {
  std::vector<uint8_t> leaves(grammar.n_nodes());
  for (const Expr expr : nodes)
    leaves[index(expr)] = !shapes[index(expr)].has_call && shapes[index(expr)].nullable;
  return {grammar, nodes, std::move(leaves)};
}

}  // namespace

GrammarFacts find_facts(const Grammar& grammar) {
  if (grammar.n_rules() == 0)
    throw ConstraintError("The grammar has no rules; it needs at least a root.", "");
  const Walk walk(grammar);
  const std::vector<Shape> shapes = find_shapes(grammar);
  const LeastSolution ends = solve_endings(grammar, walk.nodes());
  const LeastSolution nullable = solve_nullable(grammar, walk.nodes(), shapes);
  GrammarFacts facts{walk.rules(), std::vector<uint8_t>(grammar.n_rules()),
                     std::vector<uint8_t>(grammar.n_rules())};
  for (const Grammar::Rule rule : facts.reachable) {
    const Expr body = grammar.body(rule);
    if (!ends.holds(body))
      throw ConstraintError(
          "The rule \"" + grammar.name(rule) +
              "\" can never end: each of its alternatives calls it again; add one that does not.",
          "");
    facts.nullable[index(rule)] = nullable.holds(body);
    facts.is_small[index(rule)] = is_small(shapes[index(body)]);
  }
  return facts;
}

}  // namespace hearth
