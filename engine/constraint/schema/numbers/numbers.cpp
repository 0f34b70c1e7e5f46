#include "engine/constraint/schema/numbers/numbers.h"

#include <string>

#include "engine/constraint/schema/numbers/multiples.h"
#include "engine/constraint/schema/numbers/range.h"

namespace hearth {
namespace {

using Expr = Grammar::Expr;

bool above(const Decimal& value, const NumberBound& least) {
  return least.inclusive ? value >= least.value : value > least.value;
}

bool below(const Decimal& value, const NumberBound& most) {
  return most.inclusive ? value <= most.value : value < most.value;
}

}  // namespace

void NumberLimits::raise_least(const NumberBound& bound) {
  if (!least || bound.value > least->value || (bound.value == least->value && !bound.inclusive))
    least = bound;
}

void NumberLimits::lower_most(const NumberBound& bound) {
  if (!most || bound.value < most->value || (bound.value == most->value && !bound.inclusive)) most = bound;
}

bool satisfies(const Decimal& value, const NumberLimits& limits) {
  if (limits.integer && !value.is_integer()) return false;
  if (limits.least && !above(value, *limits.least)) return false;
  if (limits.most && !below(value, *limits.most)) return false;
  for (const Decimal& step : limits.multiples_of) {
    const std::optional<bool> fits = is_multiple(value, step);
    if (!fits) throw ConstraintError("A multiple of more than 15 digits cannot be checked; round it.", "");
    if (!*fits) return false;
  }
  return true;
}

Expr number_expression(Grammar& grammar, const NumberLimits& limits) {
  return limits.multiples_of.empty() ? number_range(grammar, limits) : number_multiples(grammar, limits);
}

}  // namespace hearth
