// Makes random expressions of bounded depth.
#include "tests/engine/constraint/random_grammar.h"

namespace hearth::test {
namespace {

class Maker {
 public:
  Maker(std::mt19937& random, int n_letters) : random_(random), n_letters_(n_letters) {}

  Grammar make() {
    const int n_rules = 1 + below(4);
    for (int r = 0; r < n_rules; ++r) rules_.push_back(grammar_.declare("r" + std::to_string(r)));
    for (const Grammar::Rule rule : rules_) grammar_.define(rule, body());
    grammar_.set_root(rules_[0]);
    return std::move(grammar_);
  }

 private:
  using Expr = Grammar::Expr;

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  char letter() { return static_cast<char>('a' + below(n_letters_)); }

  Expr letters() {
    std::string text;
    for (int n = 1 + below(3); n > 0; --n) text += letter();
    return grammar_.literal(text);
  }
  Expr letter_set() {
    ByteSet set;
    for (int n = below(4); n >= 0; --n) set.set(static_cast<unsigned char>(letter()));
    return grammar_.byte(set);
  }

  /// Makes a rule's body: usually a choice between an expression without calls, which lets the rule end, and
  /// one with calls. Most expressions with calls begin with a letter; otherwise nearly all rules would be
  /// left-recursive.
  Expr body() {
    const Expr out = expr(2, false);
    Expr other = expr(4, true);
    if (below(4) != 0) other = grammar_.sequence(std::vector<Expr>{letter_set(), other});
    return below(5) == 0 ? other : grammar_.choice(std::vector<Expr>{out, other});
  }

  Expr expr(int depth, bool may_call) {
    if (depth == 0) return leaf(may_call);
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        return grammar_.sequence(several(depth, may_call));
      case 3:
      case 4:
        return grammar_.choice(several(depth, may_call));
      case 5:
      case 6:
        return repeat(expr(depth - 1, may_call));
      case 7:
        return grammar_.both(expr(depth - 1, false), expr(depth - 1, false));
      case 8:
        return grammar_.except(expr(depth - 1, false), expr(depth - 1, false));
      default:
        return leaf(may_call);
    }
  }

  std::vector<Expr> several(int depth, bool may_call) {
    std::vector<Expr> parts;
    for (int n = 1 + below(3); n > 0; --n) parts.push_back(expr(depth - 1, may_call));
    return parts;
  }

  Expr repeat(Expr what) {
    const int least = below(3);
    switch (below(6)) {
      case 0:
        return grammar_.repeat(what, least, least + 8 + below(20));
      case 1:
      case 2:
        return grammar_.repeat(what, least, least + below(3));
      default:
        return grammar_.repeat(what, least, Grammar::kNoMaximum);
    }
  }

  Expr leaf(bool may_call) {
    if (may_call && below(2) == 0)
      return grammar_.call(rules_[static_cast<size_t>(below(static_cast<int>(rules_.size())))]);
    switch (below(12)) {
      case 0:
        return grammar_.empty();
      case 1:
        return below(4) == 0 ? grammar_.nothing() : grammar_.empty();
      case 2:
      case 3:
      case 4:
      case 5:
        return letter_set();
      default:
        return letters();
    }
  }

  std::mt19937& random_;
  const int n_letters_;
  Grammar grammar_;
  std::vector<Grammar::Rule> rules_;
};

}  // namespace

Grammar random_grammar(std::mt19937& random, int n_letters) { return Maker(random, n_letters).make(); }

std::vector<std::string> random_vocabulary(std::mt19937& random, int n_letters, int n_tokens) {
  std::vector<std::string> pieces;
  for (int i = 0; i < n_tokens; ++i) {
    const unsigned kind = random() % 10;
    const size_t length = kind == 0 ? 10 + random() % 8 : kind == 1 ? random() % 2 : 1 + random() % 4;
    std::string piece;
    // Long tokens repeat a letter or two, because other long tokens would hardly ever be allowed.
    const auto first = static_cast<char>('a' + random() % static_cast<unsigned>(n_letters));
    while (piece.size() < length)
      piece += length > 6 && random() % 8 != 0
                   ? first
                   : static_cast<char>('a' + random() % static_cast<unsigned>(n_letters));
    pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace hearth::test
