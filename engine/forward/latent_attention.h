// Latent attention (LatentWeights): computes queries in the space of the latent that the KV cache holds, and
// values from the latents that attention gives.
//
// Used by ForwardPass. Engine thread.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace hearth {

/// The buffers of a layer's call, in the backend's memory. See Workspace.
struct LatentBuffers {
  float* normed = nullptr;       // [n_tokens, d_model] the input of attention
  float* q_latent = nullptr;     // [n_tokens, q_rank]
  float* q_projected = nullptr;  // [n_tokens, projected_q_dim]
  float* q = nullptr;            // [n_tokens, q_dim]
  float* k = nullptr;            // [n_tokens, head_dim]
  float* scratch = nullptr;      // [n_tokens, kv_rank]
};

/// Computes q and k of a layer. k is the normed latent followed by the rotated key, and all heads share it.
/// The query of a head is projected to the latent's space, which gives q. So the product of q with the latent
/// equals the product of the unprojected query with the key that would be computed from the latent. rope is
/// null if the layer has no rotary embedding.
void project_latent(Backend& backend, const ModelSpec& spec, const LayerWeights& layer,
                    std::span<const int32_t> positions, const Rope* rope, const LatentBuffers& buffers);

/// Computes each head's values [n_tokens, attended_dim] from the result of attention, `attended` [n_tokens,
/// q_dim], in which each head has a latent.
void unfold_values(Backend& backend, const ModelSpec& spec, const LatentWeights& weights, int n_tokens,
                   const float* attended, float* values);

}  // namespace hearth
