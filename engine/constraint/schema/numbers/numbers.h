// Numbers of JSON schemas as expressions: bounds of any decimal digits, both signs, and multiples.
//
// A number is written without a leading '+' and never as -0. Integers have only digits, at most 20. Other
// numbers have at most 20 digits before the point and about 15 significant ones, so that readers who use
// doubles see the same order; an exponent, of at most two digits, is allowed only if there is no bound. One
// thread.
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

  // Replaces the known limit by the bound if that is stricter.
  void raise_least(const NumberBound& bound);
  void lower_most(const NumberBound& bound);
};

/// Whether the number is within the limits. Throws ConstraintError if a multiple has more than 15 digits.
bool satisfies(const Decimal& value, const NumberLimits& limits);

/// The numbers within the limits; nothing() if there are none. Contains no calls unless there are multiples.
/// Throws ConstraintError, without a location, for multiples that cannot be enforced.
Grammar::Expr number_expression(Grammar& grammar, const NumberLimits& limits);

}  // namespace hearth
