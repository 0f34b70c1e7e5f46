// The forward pass of every architecture. The stages of a layer are written once, as operations of Backend.
//
// ModelRuntime owns it and the engine thread runs it. The constructor allocates all memory.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/forward/ffn_pass.h"
#include "engine/forward/indexer_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/forward/layer_call.h"
#include "engine/forward/layer_embeddings.h"
#include "engine/forward/mixture_verifier.h"
#include "engine/forward/pass_memory.h"
#include "engine/forward/residual_streams.h"
#include "engine/forward/rope.h"
#include "engine/forward/state_memory.h"
#include "engine/model/devices.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/step/batch.h"
#include "kernels/backend.h"
#include "kernels/base/trace.h"

namespace hearth {

/// The hidden states of a step's tokens for NextnPass: before the output norm with Architecture::nextn_heads,
/// else after it.
struct HiddenRows {
  /// In host memory, [n, d_model]: of the n tokens in `rows`, which index the step's tokens in ascending
  /// order, or of all tokens if `device` is null. With PassBounds::of_nextn or keeps_last: of the tokens with
  /// logits, after the output norm.
  const float* host = nullptr;
  std::span<const int32_t> rows;
  /// In the device's memory, [n_tokens, d_model], of all tokens. Then `rows` has all tokens but those of
  /// prompts, and the last PassBounds::n_nextn_heads ones of each sequence.
  const float* device = nullptr;
};

class ForwardPass {
 public:
  /// All references and the devices' backends must outlive the pass. lender: the model's pass, with
  /// PassBounds::of_nextn (see FfnPass); else null.
  ForwardPass(const Devices& devices, const ModelSpec& spec, const Weights& weights, const KvMemory& kv,
              const PassBounds& bounds, const ForwardPass* lender = nullptr);

  /// Bytes of the buffers above on one device. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, int max_tokens, int max_logit_rows);

  /// Computes what the residual stream x [n_tokens, d_model] starts with, in the memory of the backend of
  /// layer 0.
  using Start = std::function<void(Backend& backend, float* x)>;

  /// One step; see ForwardModel::forward. start: called in place of reading the tokens' embeddings; null: the
  /// embeddings.
  StepOutput run(const Batch& batch, const Start* start = nullptr);
  /// Returns the hidden states of the last step, which had n_tokens tokens. Valid until the next step of this
  /// pass; HiddenRows::host with a device only until the next step of any pass. REQUIRES:
  /// PassBounds::beside_nextn and all layers have their own keys and values; or of_nextn or keeps_last, and
  /// the step had logits.
  HiddenRows hidden_rows(int n_tokens);

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
  void write_hidden(const Side& side, int n_rows, float* to);
  void choose_host_rows(const Batch& batch);
  int keep_hidden(const Side& side, const Batch& batch, float* to);
  void compute_logits(const Side& side, const Batch& batch, float* values);

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
  std::vector<int32_t> places_before_;  // [max_tokens] positions before the tokens; empty unless assisting
  std::vector<int32_t> n_seen_;         // [max_tokens], see KvPlaces; empty unless tokens look ahead
  // [max_tokens, d_model] Copy of the hidden states. The copy is needed because logits() of the same step
  // reuses the memory that to_host() returns.
  std::vector<float> hidden_;
  HiddenRows hidden_of_step_;  // see hidden_rows(); only with a device
  std::vector<int32_t> host_rows_;
  Trace* trace_ = nullptr;
  MixtureVerifier* verifier_ = nullptr;
};

}  // namespace hearth
