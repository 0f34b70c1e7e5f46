// The forward pass of every architecture. The stages of a layer are written once, as operations of Backend.
//
// ModelRuntime owns it and the engine thread runs it. The constructor allocates all memory.
#pragma once

#include <span>
#include <vector>

#include "engine/forward/delta_pass.h"
#include "engine/forward/ffn_pass.h"
#include "engine/forward/indexer_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/forward/layer_call.h"
#include "engine/forward/layer_embeddings.h"
#include "engine/forward/mixture_verifier.h"
#include "engine/forward/residual_streams.h"
#include "engine/forward/rope.h"
#include "engine/forward/short_conv_pass.h"
#include "engine/forward/state_memory.h"
#include "engine/model/devices.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/step/batch.h"
#include "kernels/backend.h"
#include "kernels/base/trace.h"

namespace hearth {

/// Buffers of a step in one device's memory, without those of the FFN.
struct Workspace {
  Workspace() = default;
  Workspace(Memory& memory, const ModelSpec& spec, int max_tokens);

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

/// Buffers for the logits, in the memory of the device that computes the output.
struct OutputWorkspace {
  OutputWorkspace() = default;
  OutputWorkspace(Memory& memory, const ModelSpec& spec, int max_logit_rows);

  Buffer last;    // [max_logit_rows, d_model]
  Buffer logits;  // [max_logit_rows, n_vocab]
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
};
StepBounds step_bounds(const ModelSpec& spec, const PassBounds& bounds);

class ForwardPass {
 public:
  /// All references and the devices' backends must outlive the pass.
  ForwardPass(const Devices& devices, const ModelSpec& spec, const Weights& weights, const KvMemory& kv,
              const PassBounds& bounds);

  /// Bytes of the buffers above on one device. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, int max_tokens, int max_logit_rows);

  /// One step; see ForwardModel::forward. input: [n_tokens, d_model], what the residual stream starts with
  /// instead of the tokens' embeddings, in the CPU's memory; null: the embeddings. REQUIRES: `input` is null
  /// if there is a device.
  StepOutput run(const Batch& batch, const float* input = nullptr);
  /// Returns the hidden states [n_tokens, d_model] of all tokens of the last step, after the output norm;
  /// valid until the next step. REQUIRES: there is no device; all layers have their own keys and values.
  const float* all_hidden_states(int n_tokens);

  /// Records a trace of all steps from now on: whole steps, and the stages of layers that the CPU runs. (A
  /// device's backend records its own stages.) Null stops the trace. The trace must outlive the pass.
  void trace_to(Trace* trace) { trace_ = trace; }

  /// Verifies mixtures of experts from now on; null verifies none. The verifier must outlive the pass, or
  /// verify_mixtures(null) must be called before.
  void verify_mixtures(MixtureVerifier* verifier) {
    verifier_ = verifier;
    ffn_.verify_mixtures(verifier);
  }

  int max_logit_rows() const { return bounds_.max_logit_rows; }
  const KvMemory& kv() const { return kv_; }
  StateMemory& states() { return states_; }
  const StateMemory& states() const { return states_; }
  FfnPass& ffn() { return ffn_; }
  const FfnPass& ffn() const { return ffn_; }

 private:
  /// One device in a step: its backend and its buffers.
  struct Side {
    Backend* backend;
    const Workspace* work;
  };
  Side side_of(int layer);
  const LayerWeights& layer_weights(int layer) const;

  Side moved(const Side& from, const Side& to, int n_tokens);
  void embed(const Side& side, const Batch& batch);
  void add_rows(const Side& side, const Matrix& table, std::span<const int32_t> rows);
  bool can_drop_rows() const;
  const Batch& drop_unwanted_rows(const Side& side, const Batch& batch);
  const int32_t* seen_ahead(const Batch& batch);
  void recurrent_block(const Side& side, int index, int n_tokens, float* out);
  void attention_block(const Side& side, int index, const Batch& batch, const KvPlaces& places, float* out,
                       bool accumulate);
  void project(const Side& side, int index, const Batch& batch, const KvPlaces& places);
  void turn_queries(const Side& side, int index, const Batch& batch);
  void fill_up_values(const Side& side, int index, int n_tokens);
  void separate_gates(const Side& side, int index, int n_tokens);
  void apply_gate(const Side& side, int index, int n_tokens);
  void norm_qk(Backend& backend, int index, int n_tokens, float* q, float* k);
  void add_branch(const Side& side, const NormWeights& post_norm, int n_tokens);
  Rope rope_of(const RopeFrequencies& frequencies, const RopeSpec& spec) const;
  void norm(Backend& backend, const float* x, const NormWeights& weights, int64_t n_rows, float* out);
  std::span<const float> hidden_states(const Side& side, const Batch& batch);
  std::span<const float> logits(const Side& side, const Batch& batch);

  Devices devices_;
  const ModelSpec& spec_;
  const Weights& weights_;
  const KvMemory& kv_;
  RopeFrequencies frequencies_, local_frequencies_;
  Rope rope_, local_rope_;
  bool branches_apart_;  // attention and FFN output is normed or scaled before it is added
  int drops_at_;         // the first layer that need not compute all tokens of a step
  PassBounds bounds_;
  bool streams_ = false;  // in this step, the device also computes layers that are in host memory
  FfnPass ffn_;
  Workspace on_cpu_, on_device_;  // empty for a device without layers
  StateMemory states_;
  std::span<const RecurrentRun> runs_;  // of the step; empty without recurrent layers
  bool has_library_ = false;            // on the device, a matrix library multiplies prompt tokens
  OutputWorkspace output_;
  IndexerPass indexer_;
  LayerEmbeddings layer_embeddings_;
  ResidualStreams residual_streams_;
  std::vector<int32_t> table_rows_;  // [max_tokens] rows of learned positions or token types
  // The tokens of the step for which layers without their own keys and values are computed: as indices into
  // the batch's tokens, and as a separate batch.
  std::vector<int32_t> wanted_rows_;
  Batch wanted_;
  std::vector<int32_t> n_seen_;  // [max_tokens], see KvPlaces; empty unless tokens look ahead
  // [max_tokens, d_model] Copy of the hidden states. The copy is needed because logits() of the same step
  // reuses the memory that to_host() returns.
  std::vector<float> hidden_;
  Trace* trace_ = nullptr;
  MixtureVerifier* verifier_ = nullptr;
};

}  // namespace hearth
