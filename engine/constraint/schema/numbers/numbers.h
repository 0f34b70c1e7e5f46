// Expressions for the numbers that a JSON schema allows. The schema may set bounds, which may be any decimal
// numbers, and may require multiples.
//
// A number is written without a leading '+' and never as -0. Integers have only digits, at most 20. Other
// numbers have at most 20 digits before the point and about 15 significant digits, so that their order does
// not change when a program reads them as doubles. An exponent of at most two digits is allowed only if there
// is no bound. One thread.
#pragma once

#include <optional>
#include <vector>

#include "engine/constraint/grammar/grammar.h"
#include "engine/constraint/schema/numbers/decimal.h"

namespace hearth {

struct NumberBound {
  Decimal value;
  bool inclusive = true;
};

struct NumberLimits {
  bool integer = false;
  std::optional<NumberBound> least{}, most{};
  std::vector<Decimal> multiples_of{};  // each > 0

  // Replaces the current limit by the bound if the bound is stricter.
  void raise_least(const NumberBound& bound);
  void lower_most(const NumberBound& bound);
};

/// Whether the number is within the limits. Throws ConstraintError if an element of multiples_of has more
/// than 15 digits.
bool satisfies(const Decimal& value, const NumberLimits& limits);

/// Returns the numbers within the limits; nothing() if there are none. The expression contains no calls
/// unless multiples_of is used. Throws ConstraintError, without a location, for multiples that cannot be
/// enforced.
Grammar::Expr number_expression(Grammar& grammar, const NumberLimits& limits);

}  // namespace hearth
