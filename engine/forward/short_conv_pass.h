// The part of a layer that mixes tokens, if the layer is a gated short convolution (LFM2). It takes the place
// of attention.
//
// ForwardPass owns it. kernels/recurrent.h defines the convolution and its memory. Engine thread.
#pragma once

#include "engine/forward/recurrent_layer.h"
#include "engine/model/devices.h"
#include "engine/model/model_spec.h"
#include "kernels/backend.h"

namespace hearth {

/// Buffers of short convolutions in one device's memory; empty for models without such layers.
struct ShortConvWorkspace {
  ShortConvWorkspace() = default;
  ShortConvWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens);
  /// Bytes of the buffers. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, int max_tokens);

  Buffer raw, gate, mixed;  // [max_tokens, d_model]
};

/// REQUIRES: backend.recurrent() is not null.
void run_short_conv(Backend& backend, const ModelSpec& spec, const ShortConvWorkspace& work,
                    const RecurrentLayer& layer);

}  // namespace hearth
