#include "engine/constraint/schema/chain.h"

#include <algorithm>

namespace hearth {
namespace {

using Expr = Grammar::Expr;
constexpr size_t kMaxStates = 40'000;

/// Builds one expression for each state, from the last link (ChainLink) to the first. Each expression matches
/// the rest of the list. A state consists of the index of the next link and the number of links written so
/// far. This number is counted only up to count_limit_, because a higher number makes no difference.
class ChainBuilder {
 public:
  ChainBuilder(Grammar& grammar, JsonText& text, std::string_view close, Chain chain)
      : grammar_(grammar), text_(text), close_(close), chain_(std::move(chain)) {
    const size_t n = chain_.links.size();
    if (!chain_.extra && chain_.most && static_cast<size_t>(*chain_.most) >= n) chain_.most.reset();
    const auto n_required =
        std::count_if(chain_.links.begin(), chain_.links.end(), [](const auto& l) { return l.required; });
    if (chain_.least <= n_required) chain_.least = 0;
    count_limit_ = static_cast<size_t>(chain_.most ? *chain_.most : std::max(chain_.least, 1));
    if ((n + 1) * (std::min(n, count_limit_) + 1) > kMaxStates)
      throw ConstraintError(
          "Counting so many properties takes too many states; leave out the limits of their number.", "");
    count_uses();
  }

  Expr build() {
    const size_t n = chain_.links.size();
    std::vector<Expr> rests;
    for (size_t count = 0; count < uses_[n].size(); ++count)
      rests.push_back(uses_[n][count] ? named(end(count), n, count) : grammar_.nothing());
    for (size_t i = n; i-- > 0;) {
      const Expr text = shared_text(i);
      std::vector<Expr> here;
      for (size_t count = 0; count < uses_[i].size(); ++count)
        here.push_back(uses_[i][count] ? named(state(i, count, text, rests), i, count) : grammar_.nothing());
      rests = std::move(here);
    }
    return rests[0];
  }

 private:
  bool is_full(size_t count) const { return chain_.most && count >= static_cast<size_t>(*chain_.most); }
  size_t after(size_t count) const { return chain_.most ? count + 1 : std::min(count + 1, count_limit_); }

  /// Counts how many states lead to each reachable state. A state to which several states lead becomes a
  /// rule.
  void count_uses() {
    const size_t n = chain_.links.size();
    for (size_t i = 0; i <= n; ++i) uses_.emplace_back(std::min(i, count_limit_) + 1);
    uses_[0][0] = 1;
    for (size_t i = 0; i < n; ++i)
      for (size_t count = 0; count < uses_[i].size(); ++count) {
        if (!uses_[i][count]) continue;
        const bool can_take = !is_full(count), can_skip = !chain_.links[i].required;
        if (can_take) ++uses_[i + 1][after(count)];
        if (can_skip && !(can_take && after(count) == count)) ++uses_[i + 1][count];
      }
  }

  Expr named(Expr rest, size_t i, size_t count) {
    if (uses_[i][count] < 2 || grammar_.is_nothing(rest)) return rest;
    const Grammar::Rule rule = grammar_.declare(chain_.name + ", after " + std::to_string(i));
    grammar_.define(rule, rest);
    return grammar_.call(rule);
  }

  /// Returns the text of link i. If several states use the text, defines a rule for it and returns a call of
  /// that rule.
  Expr shared_text(size_t i) {
    const Expr text = chain_.links[i].text;
    const auto n = std::count_if(uses_[i].begin(), uses_[i].end(), [](size_t uses) { return uses > 0; });
    if (n < 2 || grammar_.node(text).kind == Grammar::Node::Kind::kCall) return text;
    const Grammar::Rule rule = grammar_.declare(chain_.name + ", part " + std::to_string(i + 1));
    grammar_.define(rule, text);
    return grammar_.call(rule);
  }

  Expr state(size_t i, size_t count, Expr text, const std::vector<Expr>& rests) {
    const Expr separated = text_.sequence({count == 0 ? text_.gap() : text_.comma(), text});
    const bool can_take = !is_full(count), can_skip = !chain_.links[i].required;
    if (can_take && can_skip && after(count) == count)
      return grammar_.sequence({grammar_.optional(separated), rests[count]});
    std::vector<Expr> options;
    if (can_take) options.push_back(grammar_.sequence({separated, rests[after(count)]}));
    if (can_skip) options.push_back(rests[count]);
    return grammar_.choice(options);
  }

  /// Returns the extras and the closing bracket, for a list in which `count` links were written.
  Expr end(size_t count) {
    const int missing = std::max(0, chain_.least - static_cast<int>(count));
    const int room = chain_.most ? *chain_.most - static_cast<int>(count) : Grammar::kNoMaximum;
    if (missing > 1 || (missing == 1 && (!chain_.extra || room == 0)) || (chain_.most && room < 0))
      return grammar_.nothing();
    const Expr close = text_.text(close_), gap_close = text_.sequence({text_.gap(), close});
    if (!chain_.extra || room == 0) return count == 0 ? close : gap_close;
    const Expr more = text_.sequence({text_.comma(), *chain_.extra});
    if (count > 0) return text_.sequence({grammar_.repeat(more, missing, room), gap_close});
    const int room_after_first = room == Grammar::kNoMaximum ? room : room - 1;
    const Expr some =
        text_.sequence({text_.gap(), *chain_.extra, grammar_.repeat(more, 0, room_after_first), gap_close});
    return missing == 0 ? text_.choice({close, some}) : some;
  }

  Grammar& grammar_;
  JsonText& text_;
  std::string_view close_;
  Chain chain_;
  size_t count_limit_ = 0;
  std::vector<std::vector<size_t>> uses_;  // [n_links + 1][count]
};

}  // namespace

Expr chain_expression(Grammar& grammar, JsonText& text, std::string_view open, Chain chain,
                      std::string_view close) {
  return grammar.sequence(
      {grammar.literal(open), ChainBuilder(grammar, text, close, std::move(chain)).build()});
}

}  // namespace hearth
