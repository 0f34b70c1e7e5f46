// Runs a loaded model once before it is served, so that the first request costs no more than the next.
//
// The first step of a model pays for what later ones find done: pages of a mapped file that nothing has read yet, pages of
// scratch and of keys and values, threads that start, kernels that a GPU's driver loads. It is called between load and
// Engine, on the load's thread; what the steps write to the KV blocks, nobody reads.
#pragma once

#include "engine/serving/batch.h"

namespace hearth {

/// Runs a short prompt and one token behind it. Reads all weights that every token needs.
void warm_up(ForwardModel& model);

}  // namespace hearth
