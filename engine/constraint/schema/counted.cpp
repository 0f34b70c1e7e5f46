#include "engine/constraint/schema/counted.h"

namespace hearth {
namespace {

using Expr = Grammar::Expr;

/// Maximum number of repeats that are written out. For so few repeats, blocks would take about as many
/// states.
constexpr int kMostWrittenOut = 3 * kCountedBlock;

class Blocks {
 public:
  Blocks(Grammar& grammar, Expr what)
      : grammar_(grammar),
        what_(what),
        whole_(rule("block", kCountedBlock)),
        part_(rule("part of a block", 0)) {}

  /// Returns zero to `most` repeats.
  Expr up_to(int most) {
    const int n_blocks = most / kCountedBlock;
    return grammar_.choice({grammar_.sequence({grammar_.repeat(whole_, 0, n_blocks - 1), part_}),
                            grammar_.sequence({exactly(n_blocks * kCountedBlock),
                                               grammar_.repeat(what_, 0, most % kCountedBlock)})});
  }

  Expr exactly(int n) {
    const int rest = n % kCountedBlock;
    return grammar_.sequence(
        {grammar_.repeat(whole_, n / kCountedBlock, n / kCountedBlock), grammar_.repeat(what_, rest, rest)});
  }

 private:
  /// Returns a call of a new rule. If least is kCountedBlock, the rule matches one whole block; if least is
  /// 0, it matches fewer repeats than a block has.
  Expr rule(const char* name, int least) {
    const Grammar::Rule rule = grammar_.declare(name);
    grammar_.define(rule, grammar_.repeat(what_, least, least == 0 ? kCountedBlock - 1 : kCountedBlock));
    return grammar_.call(rule);
  }

  Grammar& grammar_;
  Expr what_, whole_, part_;
};

}  // namespace

Expr counted(Grammar& grammar, Expr what, int least, int most) {
  const bool open = most == Grammar::kNoMaximum;
  if ((open ? least : most) <= kMostWrittenOut || (!open && most < least))
    return grammar.repeat(what, least, most);
  Blocks blocks(grammar, what);
  const Expr first = least <= kMostWrittenOut ? grammar.repeat(what, least, least) : blocks.exactly(least);
  if (open) return grammar.sequence({first, grammar.any_number(what)});
  const int more = most - least;
  const Expr rest = more <= kMostWrittenOut ? grammar.repeat(what, 0, more) : blocks.up_to(more);
  return grammar.sequence({first, rest});
}

}  // namespace hearth
