// Expressions for numbers that are multiples of given numbers. A part of numbers.h.
//
// Three methods are tried in this order. If there are only a few multiples between two bounds, they are
// listed. If a divisor has only the prime factors 2 and 5, such as 0.01, 0.25 or 20, the last digits of a
// number decide whether it is a multiple. For an integer up to kMaxResidues, each possible remainder of the
// digits so far becomes a rule.
#pragma once

#include "engine/constraint/schema/numbers/numbers.h"

namespace hearth {

constexpr int64_t kMaxResidues = 100;

/// REQUIRES: limits.multiples_of is not empty. Throws ConstraintError, without a location, if no method
/// applies.
Grammar::Expr number_multiples(Grammar& grammar, const NumberLimits& limits);

}  // namespace hearth
