// The memory of a forward pass on one device: the buffers of a step, and the bounds of the steps for which
// they and the backends' scratch memory are allocated.
//
// ForwardPass owns the buffers. A plan runs the same constructors with a MemoryMeter, to count the bytes that
// loading will take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/forward/delta_pass.h"
#include "engine/forward/layer_call.h"
#include "engine/forward/short_conv_pass.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"
#include "kernels/memory.h"

namespace hearth {

/// Buffers of a step in one device's memory, without those of the FFN.
struct Workspace {
  Workspace() = default;
  Workspace(Memory& memory, const ModelSpec& spec, int max_tokens);
  /// Returns the same buffers, without those of recurrent layers; this object must outlive them.
  Workspace view() const;

  Buffer residual;   // x [max_tokens, d_model]
  Buffer normed;     // [max_tokens, d_model]
  Buffer ffn_input;  // [max_tokens, d_model], for parallel architectures
  // [max_tokens, d_model] Output of attention or FFN, if it is normed or scaled before it is added to x.
  Buffer branch;
  Buffer q, k, v;   // [max_tokens, q_dim | kv_dim]
  Buffer attended;  // [max_tokens, q_dim]
  // For latent attention: the latent of the queries, the queries before they are projected to the keys'
  // latent space, and the values of all heads. For gated attention: the queries with their gates, and the
  // gates. With ModelSpec::d_value: the values, before and after attention, without zeros.
  Buffer q_latent, q_projected, values;  // [max_tokens, q_rank | projected_q_dim | attended_dim]
  DeltaWorkspace delta;
  ShortConvWorkspace short_conv;
};

struct PassBounds;

/// Buffers for the logits, and for the hidden states that NextnPass reads, in the memory of the device that
/// computes the output.
struct OutputWorkspace {
  OutputWorkspace() = default;
  /// on_device: whether the memory is a device's.
  OutputWorkspace(Memory& memory, const ModelSpec& spec, const PassBounds& bounds, bool on_device);

  /// The hidden states follow the logits of a step at a multiple of this number of floats.
  static constexpr int64_t kAlign = 64;
  static int64_t kept_from(int64_t n_logits) { return (n_logits + kAlign - 1) / kAlign * kAlign; }

  Buffer last;    // [max_logit_rows, d_model]
  Buffer logits;  // [max_logit_rows, n_vocab], then hidden states for the host [kept_rows(), d_model]
  Buffer hidden;  // [max_tokens, d_model] HiddenRows::device; empty without PassBounds::beside_nextn
};

/// Upper bounds of a step; devices reserve scratch memory for them.
struct PassBounds {
  int max_tokens = 1;
  int max_logit_rows = 1;
  int max_context = 1;                           // maximum number of positions of a sequence
  int n_states = 1;                              // states of recurrent layers
  int n_snapshots = 0;                           // snapshots of these states
  bool shares = false;                           // a device and the CPU share neurons of a layer
  bool holds_experts = false;                    // a device holds experts of a mixture
  size_t stream_bytes = 0, stream_kv_bytes = 0;  // see StepBounds
  bool library = false;          // a matrix library multiplies prompt tokens, unless neurons are shared
  bool library_decodes = false;  // see StepBounds
  int other_cols = 0;            // columns of matrices that the caller multiplies by, beside the layers'
  /// A NextnPass runs beside the model's pass. Both use the scratch memory that the model's pass reserves,
  /// and NextnPass reads ForwardPass::hidden_rows().
  bool beside_nextn = false;
  bool nextn_on_cpu = false;  // the CPU computes NextnPass's attention
  int of_nextn = 0;  // n: the pass is that of the n-th layer of NextnPass, and reserves no scratch memory
  bool keeps_last =
      false;              // ForwardPass::hidden_rows() are those of the tokens with logits, for AssistantPass
  int other_heads = 0;    // heads of queries of another pass that uses the scratch memory
  int n_nextn_heads = 1;  // layers of NextnPass that read hidden states
};
StepBounds step_bounds(const ModelSpec& spec, const PassBounds& bounds);
/// Returns how many rows of hidden states a step copies from a device to the host at most.
int64_t kept_rows(const PassBounds& bounds);
/// Counts the buffers that ForwardPass allocates on a device for steps within these bounds.
void count_workspaces(MemoryMeter& meter, const ModelSpec& spec, const Weights& weights,
                      const PassBounds& bounds);

}  // namespace hearth
