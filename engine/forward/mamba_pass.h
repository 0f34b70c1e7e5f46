// The part of a layer that mixes tokens, if the layer is one of Mamba-2 (Dao, Gu 2024, arXiv 2405.21060). It
// takes the place of attention.
//
// ForwardPass calls it, with the buffers of delta nets, which have the same sizes. kernels/recurrent.h
// defines the operations and their memory. Engine thread.
#pragma once

#include "engine/forward/delta_pass.h"
#include "engine/forward/recurrent_layer.h"
#include "engine/model/model_spec.h"
#include "kernels/backend.h"

namespace hearth {

/// REQUIRES: backend.recurrent() is not null.
void run_mamba_layer(Backend& backend, const ModelSpec& spec, const DeltaWorkspace& work,
                     const RecurrentLayer& layer);

}  // namespace hearth
