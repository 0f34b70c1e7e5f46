// The input of one step: tokens, their slots and positions, and the tokens whose logits or hidden states are
// needed.
//
// step_batch.h fills it from the scheduler's pieces; ForwardPass reads it. Plain data, reused in every step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/kv_window.h"
#include "engine/step/model_figures.h"

namespace hearth {

struct Batch {
  std::vector<int32_t> tokens;       // [n_tokens]
  std::vector<int32_t> positions;    // [n_tokens], 0-based within the sequence
  std::vector<int32_t> slots;        // [n_tokens], the sequence's slot: its row in block_tables
  std::vector<int32_t> logit_rows;   // indices into tokens whose logits are needed, ascending
  std::vector<int32_t> hidden_rows;  // indices into tokens whose hidden states are needed, ascending
  // A library whose results differ in their bits may multiply prompt tokens (LoadOptions::fast_prompts).
  // Whether a token is listed here depends only on its position in the request, never on the step.
  std::vector<int32_t> prompt_rows;  // indices into tokens that belong to a prompt, ascending
  /// indices into logit_rows, ascending: the rows that only score a prompt, without the row of its last token
  std::vector<int32_t> scored_rows;
  std::span<const int32_t> block_tables;  // [n_slots, max_blocks] ids of KV blocks
  // Like block_tables, for layers with a window and separate KV blocks (StepLimits::window). Entries of KV
  // blocks that no token of the batch sees are not read.
  std::span<const int32_t> window_tables;
  int max_blocks = 0;

  int n_tokens() const { return static_cast<int>(tokens.size()); }
  void clear() {
    tokens.clear();
    positions.clear();
    slots.clear();
    logit_rows.clear();
    hidden_rows.clear();
    prompt_rows.clear();
    scored_rows.clear();
  }
};

struct StepLimits {
  int max_tokens = 0;      // most tokens in one step
  int max_logit_rows = 0;  // most logit rows in one step
  int n_vocab = 0;
  int d_model = 0;       // floats per hidden state
  int block_tokens = 0;  // positions per KV block
  int n_blocks = 0;      // KV blocks in the cache
  KvWindow window = {};  // separate KV blocks of the layers with a window, if any
  /// The model is an encoder: each token sees its whole sequence, which must be in one step, and there are no
  /// logits.
  bool encodes = false;
  /// With a GPU: number of prompt tokens from which on a step uses the same kernels, buffers and copies as
  /// every longer one.
  /// Decoding steps are then recorded (kernels/compute_device.h).
  /// 0: the CPU computes, and all steps are alike.
  int long_step = 0;
  /// A library multiplies the tokens in Batch::prompt_rows. A token's keys and values then differ depending
  /// on whether it was generated or stands in a prompt. May change when the model is placed again.
  bool fast_prompts = false;
};

/// The result of a step, in the order of the batch's rows. Valid until the next step.
struct StepOutput {
  std::span<const float> logits;  // [logit_rows.size(), n_vocab]
  std::span<const float> hidden;  // [hidden_rows.size(), d_model], the residual stream after the final norm
};

/// The model as the Engine sees it. Tests give the Engine a scripted one.
class ForwardModel {
 public:
  virtual ~ForwardModel() = default;
  virtual StepLimits limits() const = 0;
  /// Called once by the engine thread, before it calls forward(). See Backend::bind_thread.
  virtual void bind_thread() {}
  /// Runs one step: appends keys and values of every token to the KV cache, then returns the requested rows.
  /// Engine thread only.
  /// REQUIRES: the batch is within limits(); the block tables list a KV block for each of its positions; a
  /// sequence's tokens are adjacent and in order of position; all its earlier positions are in the cache (in
  /// window blocks, those that its tokens see).
  virtual StepOutput forward(const Batch& batch) = 0;
  /// Engine thread, between steps. Costs a few hundred nanoseconds. Neuron totals are zeros where none are
  /// counted: a dense pass reads the file's own rows.
  virtual ModelFigures figures() const { return {}; }
};

}  // namespace hearth
