// How much arithmetic a backend does in long steps, with the kernels that prompts really use.
#pragma once

#include "kernels/backend.h"

namespace hearth {

/// What prompt_rate() asks of the backend, for reserve() and for a device's budget.
StepBounds prompt_rate_bounds();
/// And of its memory besides what it reserves.
size_t prompt_rate_bytes();

/// Weights times activations per second, additions included, of Q4_0 matrices and steps of many tokens: the
/// best of a few passes. On a slow machine the step is smaller, so that all takes less than a second on any.
/// now: seconds of a clock that stands still or not while other programs have the processors. REQUIRES:
/// reserve(prompt_rate_bounds()) was called. Throws std::bad_alloc, and what the backend throws.
double prompt_rate(Backend& backend, double (*now)());

}  // namespace hearth
