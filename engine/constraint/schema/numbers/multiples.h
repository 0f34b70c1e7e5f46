// Expressions for numbers that are multiples of given numbers. A part of numbers.h.
//
// Three methods are tried in this order. First, if there are only a few multiples between two bounds, they
// are listed. Second, if all divisors have only the prime factors 2 and 5, such as 0.01, 0.25 or 20, the last
// digits of a number decide whether it is a multiple. Third, if the divisors are integers whose least common
// multiple is at most kMaxResidues, the digits are read from left to right, and there is one rule for each
// remainder that the digits read so far can have. The third method supports only bounds that restrict the
// sign.
#pragma once

#include "engine/constraint/schema/numbers/numbers.h"

namespace hearth {

constexpr int64_t kMaxResidues = 100;

/// REQUIRES: limits.multiples_of is not empty. Throws ConstraintError, without a location, if no method
/// applies.
Grammar::Expr number_multiples(Grammar& grammar, const NumberLimits& limits);

}  // namespace hearth
