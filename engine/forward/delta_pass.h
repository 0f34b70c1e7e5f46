// The part of a layer that mixes tokens, if the layer is a gated delta net (Yang, Kautz, Hatamizadeh 2024,
// arXiv 2412.06464) in the form of Qwen3-Next. It takes the place of attention.
//
// ForwardPass owns it. kernels/recurrent.h defines the operations and their memory. Engine thread.
#pragma once

#include "engine/forward/recurrent_layer.h"
#include "engine/model/devices.h"
#include "engine/model/model_spec.h"
#include "kernels/backend.h"
#include "kernels/recurrent.h"

namespace hearth {

/// Buffers of recurrent layers with states in one device's memory; empty for models without such layers.
struct DeltaWorkspace {
  DeltaWorkspace() = default;
  DeltaWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens);
  /// Bytes of the buffers. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const RecurrentShape& shape, int max_tokens);
  /// Sets the scales. backend: the memory in which the buffers are.
  void fill_scales(Backend& backend, const RecurrentShape& shape);

  Buffer raw;                   // [max_tokens, conv_dim] input of the convolution
  Buffer q, k;                  // [max_tokens, key_dim]
  Buffer v, z, out;             // [max_tokens, value_dim]
  Buffer decay, beta;           // [max_tokens, decay_dim | n_v_heads]
  Buffer short_z, short_alpha;  // [max_tokens, head_dim] see DeltaWeights; empty without row_decays
  Buffer q_scale;               // [head_dim], all 1 / head_dim
  Buffer k_scale;               // [head_dim], all 1 / sqrt(head_dim)
};

/// REQUIRES: backend.recurrent() is not null.
void run_delta_layer(Backend& backend, const ModelSpec& spec, const DeltaWorkspace& work,
                     const RecurrentLayer& layer);

}  // namespace hearth
