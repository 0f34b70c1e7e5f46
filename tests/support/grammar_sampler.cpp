#include "tests/support/grammar_sampler.h"

#include <algorithm>

#include "tests/support/grammar_matcher.h"

namespace hearth::test {

using Kind = Grammar::Node::Kind;

GrammarSampler::GrammarSampler(const Grammar& grammar, unsigned seed)
    : grammar_(grammar),
      random_(seed),
      expr_heights_(grammar.n_nodes(), kNever),
      rule_heights_(grammar.n_rules(), kNever) {
  // Children come before their parents, so one pass computes the heights of all expressions except calls.
  // Further rounds compute those of calls.
  for (bool changed = true; changed;) {
    for (size_t i = 0; i < expr_heights_.size(); ++i)
      expr_heights_[i] = height(static_cast<Grammar::Expr>(i));
    changed = false;
    for (size_t i = 0; i < rule_heights_.size(); ++i) {
      const Grammar::Expr body = grammar.body(static_cast<Grammar::Rule>(i));
      const int now = std::min(kNever, 1 + expr_heights_[static_cast<size_t>(body)]);
      changed = changed || now < rule_heights_[i];
      rule_heights_[i] = now;
    }
  }
}

int GrammarSampler::height(Grammar::Expr expr) const {
  const Grammar::Node& node = grammar_.node(expr);
  const auto of = [&](Grammar::Expr child) { return expr_heights_[static_cast<size_t>(child)]; };
  int all = 0, any = kNever;
  if (node.kind >= Kind::kSequence && node.kind != Kind::kCall)
    for (const Grammar::Expr child : grammar_.children(node)) {
      all = std::max(all, of(child));
      any = std::min(any, of(child));
    }
  switch (node.kind) {
    case Kind::kNothing:
      return kNever;
    case Kind::kCall:
      return rule_heights_[static_cast<size_t>(grammar_.callee(node))];
    case Kind::kChoice:
      return any;
    case Kind::kRepeat:
      return node.least == 0 ? 0 : all;
    case Kind::kExcept:
      return of(grammar_.children(node)[0]);
    default:
      return all;
  }
}

std::optional<std::string> GrammarSampler::sample(size_t enough_bytes) {
  enough_bytes_ = enough_bytes;
  const Grammar::Expr root = grammar_.body(grammar_.root());
  if (expr_heights_[static_cast<size_t>(root)] >= kNever) return {};
  std::string out;
  if (!write(root, out)) return {};
  return out;
}

bool GrammarSampler::write(Grammar::Expr expr, std::string& out) {
  const Grammar::Node& node = grammar_.node(expr);
  switch (node.kind) {
    case Kind::kNothing:
      return false;
    case Kind::kEmpty:
      return true;
    case Kind::kBytes:
      out += grammar_.bytes(node);
      return true;
    case Kind::kSet: {
      const ByteSet& set = grammar_.set(node);
      size_t skip = below(set.count());
      for (size_t b = 0; b < set.size(); ++b)
        if (set.test(b) && skip-- == 0) out += static_cast<char>(b);
      return true;
    }
    case Kind::kSequence:
      for (const Grammar::Expr part : grammar_.children(node))
        if (!write(part, out)) return false;
      return true;
    case Kind::kChoice:
      return write_choice(node, out);
    case Kind::kRepeat:
      return write_repeat(node, out);
    case Kind::kCall:
      return write(grammar_.body(grammar_.callee(node)), out);
    case Kind::kBoth:
    case Kind::kExcept:
      return write_regular(expr, out);
  }
  return false;
}

bool GrammarSampler::write_choice(const Grammar::Node& node, std::string& out) {
  std::vector<Grammar::Expr> options;
  const auto height_of = [&](Grammar::Expr e) { return expr_heights_[static_cast<size_t>(e)]; };
  for (const Grammar::Expr option : grammar_.children(node))
    if (height_of(option) < kNever) options.push_back(option);
  if (options.empty()) return false;
  if (out.size() < enough_bytes_) {
    std::shuffle(options.begin(), options.end(), random_);
  } else {
    std::stable_sort(options.begin(), options.end(),
                     [&](auto a, auto b) { return height_of(a) < height_of(b); });
  }
  const size_t begin = out.size();
  for (const Grammar::Expr option : options) {
    if (write(option, out)) return true;
    out.resize(begin);
  }
  return false;
}

bool GrammarSampler::write_repeat(const Grammar::Node& node, std::string& out) {
  const Grammar::Expr what = grammar_.children(node)[0];
  const double more = coin(0.5) ? 0.5 : 0.85;
  for (int i = 0; node.most == Grammar::kNoMaximum || i < node.most; ++i) {
    if (i >= node.least && (out.size() >= enough_bytes_ || !coin(more))) break;
    const size_t begin = out.size();
    if (write(what, out)) continue;
    out.resize(begin);
    if (i < node.least) return false;
    break;
  }
  return true;
}

/// Generates strings from the first operand (for an intersection, from the two operands in turn) until one
/// matches the whole expression. Gives up after 400 attempts.
bool GrammarSampler::write_regular(Grammar::Expr expr, std::string& out) {
  const Grammar::Node& node = grammar_.node(expr);
  const size_t begin = out.size();
  for (int attempt = 0; attempt < 400; ++attempt) {
    const bool second = node.kind == Kind::kBoth && attempt % 2 == 1;
    if (write(grammar_.children(node)[second ? 1 : 0], out) &&
        GrammarMatcher(grammar_).matches(std::string_view(out).substr(begin), expr))
      return true;
    out.resize(begin);
  }
  return false;
}

}  // namespace hearth::test
