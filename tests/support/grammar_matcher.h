// Decides whether a grammar matches a text. The slow reference for compiled grammars: it follows the
// definition of each kind of expression and nothing else. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "engine/constraint/grammar/grammar.h"

namespace hearth::test {

class GrammarMatcher {
 public:
  static constexpr size_t kMostBytes = 63;  // limit of matching_prefixes() only

  /// The grammar must outlive the matcher.
  explicit GrammarMatcher(const Grammar& grammar) : grammar_(grammar) {}

  /// Returns whether the root matches the whole text.
  bool matches(std::string_view text) { return matches(text, grammar_.body(grammar_.root())); }
  /// Returns whether the expression matches the whole text.
  bool matches(std::string_view text, Grammar::Expr expr);
  /// Returns the prefixes of the text that are in the language, as bits: bit n stands for the first n bytes.
  /// REQUIRES: text.size() <= kMostBytes.
  uint64_t matching_prefixes(std::string_view text);

 private:
  using Ends = std::set<size_t>;

  Ends all_ends(std::string_view text, Grammar::Expr expr);
  Ends ends(Grammar::Expr expr, size_t start);
  Ends compute(Grammar::Expr expr, size_t start);
  Ends repeat(const Grammar::Node& node, size_t start);
  Ends call(Grammar::Rule rule, size_t start);

  const Grammar& grammar_;
  std::string_view text_;
  // Known ends grow from round to round until a round adds none, so left recursion terminates.
  std::map<std::pair<Grammar::Rule, size_t>, Ends> rule_ends_;
  std::map<std::pair<Grammar::Expr, size_t>, Ends> known_;  // in this round
  std::set<std::pair<Grammar::Rule, size_t>> called_;       // in this round
  bool grew_ = false;
};

}  // namespace hearth::test
