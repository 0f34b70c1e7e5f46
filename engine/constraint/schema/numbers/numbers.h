// Numbers of JSON schemas as expressions: bounds of any decimal digits, both signs, and multiples.
//
// A number is written without a leading '+' and never as -0. Integers have digits only, at most 20. Other numbers have at most
// 20 digits before the point and, so that readers who take doubles see the same order, about 15 significant ones; an exponent
// of at most two digits only where there is no bound. One thread.
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

  // The stricter of what is known and the bound.
  void raise_least(const NumberBound& bound);
  void lower_most(const NumberBound& bound);
};

/// Is the number within the limits? Throws ConstraintError if a multiple has more than 15 digits.
bool satisfies(const Decimal& value, const NumberLimits& limits);

/// The numbers within the limits; nothing() if there is none. Contains no calls unless there are multiples. Throws
/// ConstraintError, without a place, for multiples that cannot be enforced.
Grammar::Expr number_expression(Grammar& grammar, const NumberLimits& limits);

}  // namespace hearth
