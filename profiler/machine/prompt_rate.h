// Measures how fast a backend multiplies matrices in steps of many tokens, with the kernels that compute
// prompts.
#pragma once

#include "kernels/backend.h"

namespace hearth {

/// The bounds of the steps that prompt_rate() runs, for reserve() and for a device's memory budget.
StepBounds prompt_rate_bounds();
/// The bytes that prompt_rate() allocates from the backend, in addition to the memory that reserve()
/// allocates.
size_t prompt_rate_bytes();

/// Returns the multiply-adds per second of the fastest of a few passes, with a Q4_0 matrix and steps of many
/// tokens. A slow machine runs smaller steps than a fast one, so that the measurement takes less than a
/// second on any machine. now: returns the time in seconds, either wall-clock time or processor time.
/// REQUIRES: reserve(prompt_rate_bounds()) was called. Throws std::bad_alloc, and any exception of the
/// backend.
double prompt_rate(Backend& backend, double (*now)());

}  // namespace hearth
