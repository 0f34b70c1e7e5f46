// Numbers that are multiples of others. A part of numbers.h.
//
// Three methods, in this order: a few multiples between two bounds are listed; a multiple with only the prime
// factors 2 and 5, such as 0.01, 0.25 or 20, is a condition on the last digits; for an integer up to
// kMaxResidues, the remainder is tracked with one rule each.
#pragma once

#include "engine/constraint/schema/numbers/numbers.h"

namespace hearth {

constexpr int64_t kMaxResidues = 100;

/// REQUIRES: limits.multiples_of is not empty. Throws ConstraintError, without a location, if no method
/// applies.
Grammar::Expr number_multiples(Grammar& grammar, const NumberLimits& limits);

}  // namespace hearth
