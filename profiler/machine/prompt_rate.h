// Measures how fast a backend multiplies in long steps, with the kernels that compute prompts.
#pragma once

#include "kernels/backend.h"

namespace hearth {

/// The bounds of the steps that prompt_rate() runs, for reserve() and for a device's memory budget.
StepBounds prompt_rate_bounds();
/// The bytes that prompt_rate() allocates from the backend, in addition to the memory that reserve()
/// allocates.
size_t prompt_rate_bytes();

/// Returns the multiply-adds per second with Q4_0 matrices and steps of many tokens, the best of a few
/// passes. Slow machines run smaller steps, so that the measurement takes less than a second on any machine.
/// now: returns the time in seconds, either wall-clock time or processor time. REQUIRES:
/// reserve(prompt_rate_bounds()) was called. Throws std::bad_alloc, and what the backend throws.
double prompt_rate(Backend& backend, double (*now)());

}  // namespace hearth
