// The numbers between two bounds, digit by digit. A part of numbers.h, which defines how numbers are written.
#pragma once

#include "engine/constraint/schema/numbers/numbers.h"

namespace hearth {

/// The numbers between limits.least and limits.most, as integers if limits.integer; ignores multiples.
/// Contains no calls. A fraction has at least least_places digits if it needs them.
Grammar::Expr number_range(Grammar& grammar, const NumberLimits& limits, size_t least_places = 0);

constexpr size_t kMaxWholeDigits = 20;

}  // namespace hearth
