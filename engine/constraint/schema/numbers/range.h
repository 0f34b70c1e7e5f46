// Writes the numbers between two bounds, digit by digit. A part of numbers.h, which defines how numbers are
// written.
#pragma once

#include "engine/constraint/schema/numbers/numbers.h"

namespace hearth {

/// Returns the numbers between limits.least and limits.most, only integers if limits.integer is set. Ignores
/// limits.multiples_of. The expression contains no calls. Numbers may have fraction digits unless
/// limits.integer is set; the maximum number of these digits is at least least_places.
Grammar::Expr number_range(Grammar& grammar, const NumberLimits& limits, size_t least_places = 0);

constexpr size_t kMaxWholeDigits = 20;

}  // namespace hearth
