// Numbers that are multiples of others. A part of numbers.h.
//
// Three ways, in this order: few multiples between two bounds are listed; a multiple whose prime factors are 2 and 5, as 0.01,
// 0.25 or 20, is a condition on the last digits; an integer up to kMaxResidues is followed by its remainder, one rule each.
#pragma once

#include "engine/constraint/schema/numbers/numbers.h"

namespace hearth {

constexpr int64_t kMaxResidues = 100;

/// REQUIRES: limits.multiples_of is not empty. Throws ConstraintError, without a place, if none of the ways serves.
Grammar::Expr number_multiples(Grammar& grammar, const NumberLimits& limits);

}  // namespace hearth
