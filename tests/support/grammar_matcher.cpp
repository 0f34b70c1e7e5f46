#include "tests/support/grammar_matcher.h"

#include <algorithm>
#include <iterator>

namespace hearth::test {

using Kind = Grammar::Node::Kind;

bool GrammarMatcher::matches(std::string_view text, Grammar::Expr expr) {
  return all_ends(text, expr).count(text.size()) != 0;
}

uint64_t GrammarMatcher::matching_prefixes(std::string_view text) {
  uint64_t prefixes = 0;
  for (const size_t end : all_ends(text, grammar_.body(grammar_.root()))) prefixes |= uint64_t{1} << end;
  return prefixes;
}

GrammarMatcher::Ends GrammarMatcher::all_ends(std::string_view text, Grammar::Expr expr) {
  text_ = text;
  rule_ends_.clear();
  Ends found;
  do {
    grew_ = false;
    known_.clear();
    called_.clear();
    found = ends(expr, 0);
  } while (grew_);
  return found;
}

GrammarMatcher::Ends GrammarMatcher::ends(Grammar::Expr expr, size_t start) {
  const auto known = known_.find({expr, start});
  if (known != known_.end()) return known->second;
  Ends found = compute(expr, start);
  known_[{expr, start}] = found;
  return found;
}

GrammarMatcher::Ends GrammarMatcher::compute(Grammar::Expr expr, size_t start) {
  const Grammar::Node& node = grammar_.node(expr);
  Ends found;
  switch (node.kind) {
    case Kind::kNothing:
      break;
    case Kind::kEmpty:
      found = {start};
      break;
    case Kind::kBytes:
      if (text_.substr(start, grammar_.bytes(node).size()) == grammar_.bytes(node))
        found = {start + grammar_.bytes(node).size()};
      break;
    case Kind::kSet:
      if (start < text_.size() && grammar_.set(node).test(static_cast<unsigned char>(text_[start])))
        found = {start + 1};
      break;
    case Kind::kSequence:
      found = {start};
      for (const Grammar::Expr part : grammar_.children(node)) {
        Ends after;
        for (const size_t at : found) after.merge(ends(part, at));
        found = std::move(after);
      }
      break;
    case Kind::kChoice:
      for (const Grammar::Expr option : grammar_.children(node)) found.merge(ends(option, start));
      break;
    case Kind::kRepeat:
      return repeat(node, start);
    case Kind::kCall:
      return call(grammar_.callee(node), start);
    case Kind::kBoth:
    case Kind::kExcept: {
      const Ends a = ends(grammar_.children(node)[0], start), b = ends(grammar_.children(node)[1], start);
      for (const size_t at : a)
        if ((b.count(at) != 0) == (node.kind == Kind::kBoth)) found.insert(at);
      break;
    }
  }
  return found;
}

GrammarMatcher::Ends GrammarMatcher::repeat(const Grammar::Node& node, size_t start) {
  const Grammar::Expr what = grammar_.children(node)[0];
  const auto next = [&](const Ends& from) {
    Ends after;
    for (const size_t at : from) after.merge(ends(what, at));
    return after;
  };
  Ends last{start};
  for (int i = 0; i < node.least && !last.empty(); ++i) last = next(last);
  Ends all = last;
  for (int i = node.least; node.most == Grammar::kNoMaximum || i < node.most; ++i) {
    last = next(last);
    const size_t before = all.size();
    all.insert(last.begin(), last.end());
    if (all.size() == before) break;
  }
  return all;
}

GrammarMatcher::Ends GrammarMatcher::call(Grammar::Rule rule, size_t start) {
  const std::pair place(rule, start);
  if (!called_.insert(place).second) return rule_ends_[place];
  Ends found = ends(grammar_.body(rule), start);
  Ends& all = rule_ends_[place];
  const size_t before = all.size();
  all.merge(found);
  grew_ = grew_ || all.size() != before;
  return all;
}

}  // namespace hearth::test
