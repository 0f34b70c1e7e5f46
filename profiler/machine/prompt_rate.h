// Measures how fast a backend multiplies in long steps, with the kernels that prompts use.
#pragma once

#include "kernels/backend.h"

namespace hearth {

/// The bounds that prompt_rate() needs, for reserve() and for a device's budget.
StepBounds prompt_rate_bounds();
/// Bytes of the backend's memory that prompt_rate() allocates, in addition to what reserve() takes.
size_t prompt_rate_bytes();

/// Multiply-adds per second with Q4_0 matrices and steps of many tokens; the best of a few passes. Slow
/// machines get smaller steps, so that the measurement takes less than a second on any machine. now: a clock
/// in seconds, which may or may not stop while other programs use the processors. REQUIRES:
/// reserve(prompt_rate_bounds()) was called. Throws std::bad_alloc, and what the backend throws.
double prompt_rate(Backend& backend, double (*now)());

}  // namespace hearth
