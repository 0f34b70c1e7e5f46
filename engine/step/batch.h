// The input of one step: tokens, their slots and positions, and the tokens whose logits or hidden states are
// needed.
//
// step_batch.h fills it from the scheduler's pieces; ForwardPass reads it. Plain data, reused in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/kv/kv_window.h"
#include "engine/step/model_figures.h"

namespace hearth {

/// Requests a snapshot of a sequence's recurrent states, as they are after one of the batch's tokens.
struct StateCopy {
  int32_t row = 0;  // index into tokens; not a draft
  int32_t snapshot = 0;
};

/// Most snapshots of one step. A device copies them one layer at a time through a buffer of this size.
inline constexpr int kMostStateCopies = 8;

struct Batch {
  std::vector<int32_t> tokens;       // [n_tokens]
  std::vector<int32_t> positions;    // [n_tokens], 0-based within the sequence
  std::vector<int32_t> slots;        // [n_tokens], slot of the token's sequence: its row in block_tables
  std::vector<int32_t> logit_rows;   // indices into tokens whose logits are needed, ascending
  std::vector<int32_t> hidden_rows;  // indices into tokens whose hidden states are needed, ascending
  // A matrix library may multiply the tokens in prompt_rows, although its results differ slightly from the
  // results of Hearth's kernels (LoadOptions::fast_prompts). Whether a token is in prompt_rows depends only
  // on its position in the request, never on the step.
  std::vector<int32_t> prompt_rows;  // indices into tokens that belong to a prompt, ascending
  /// Indices into tokens, ascending: drafts, which the sequence may not keep. They are the last tokens of
  /// their sequence in the step.
  std::vector<int32_t> draft_rows;
  std::vector<StateCopy> state_copies;  // in ascending order of rows; at most kMostStateCopies
  /// [n_tokens] 1 for tokens of the second text of a pair, else 0, for models with token types. Empty: all 0.
  std::vector<int32_t> token_types;
  /// Indices into logit_rows, ascending: rows that only score a prompt. The row of the prompt's last token is
  /// not listed.
  std::vector<int32_t> scored_rows;
  /// [n_tokens] number of the token's sequence (Sequence::number), for observers. Empty: each slot has only
  /// one sequence.
  std::vector<uint64_t> sequences;
  std::span<const int32_t> block_tables;  // [n_slots, max_blocks] ids of KV blocks
  // Like block_tables, but for layers with a window and separate KV blocks (StepLimits::window). If no token
  // of the batch sees a KV block, the entry of that KV block is not read.
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
    draft_rows.clear();
    state_copies.clear();
    scored_rows.clear();
    token_types.clear();
    sequences.clear();
  }
};

struct StepLimits {
  int max_tokens = 0;      // maximum number of tokens in one step
  int max_logit_rows = 0;  // maximum number of logit rows in one step
  int n_vocab = 0;
  int d_model = 0;       // floats per hidden state
  int block_tokens = 0;  // positions per KV block
  int n_blocks = 0;      // KV blocks in the cache
  KvWindow window = {};  // separate KV blocks of the layers with a window, if any
  /// The model is an encoder: each token sees its whole sequence, so a step must contain the whole sequence.
  bool encodes = false;
  bool generates = true;  // false: there are no logits, only hidden states
  bool has_head = false;  // apply_head() changes a text's pooled hidden state
  bool scores = false;    // the head's results are scores of a pair of texts, not an embedding
  /// The model has recurrent layers: a sequence can continue only from the end of the state that its slot
  /// contains, or from a snapshot. A sequence has at most max_drafts drafts in a step.
  bool recurrent = false;
  int max_drafts = std::numeric_limits<int>::max();
  int n_snapshots = 0;    // of the states of one sequence
  bool predicts = false;  // predict() is possible
  /// How many tokens predict() can guess in a row: from one call with `first` to the next.
  int most_predicted = std::numeric_limits<int>::max();
  /// block_bytes: what copy_out() copies, one KV block and one window block in all layers. state_bytes: what
  /// copy_state_out() copies, one snapshot. copies: whether these functions may be called.
  size_t block_bytes = 0, state_bytes = 0;
  bool copies = false;
  /// With a GPU: all steps with at least this many prompt tokens use the same kernels, buffers and copies.
  /// Without a GPU: 0.
  int long_step = 0;
  /// A matrix library computes the products of the tokens in Batch::prompt_rows. A token's keys and values
  /// then depend on whether the token was generated or is part of a prompt. This field may change when the
  /// model is placed again.
  bool fast_prompts = false;
};

/// The result of a step, in the order of the batch's rows. Valid until the next step.
struct StepOutput {
  std::span<const float> logits;  // [logit_rows.size(), n_vocab]
  std::span<const float> hidden;  // [hidden_rows.size(), d_model], the residual stream after the final norm
};

/// The model as the Engine sees it. Tests give the Engine a scripted model.
class ForwardModel {
 public:
  virtual ~ForwardModel() = default;
  virtual StepLimits limits() const = 0;
  /// Called once by the engine thread, before it calls forward(). See Backend::bind_thread.
  virtual void bind_thread() {}
  /// Runs one step: appends the keys and values of every token to the KV cache, then returns the requested
  /// rows. Engine thread only.
  /// REQUIRES: the batch is within limits(); the block tables list a KV block for each position of the batch;
  /// the tokens of a sequence are adjacent and in order of position; all earlier positions of a sequence are
  /// in the KV cache. Window blocks need to hold only the positions that the tokens see. If the model is
  /// recurrent: the slot's last step ended where the sequence continues, except for rejected drafts, or the
  /// sequence begins.
  virtual StepOutput forward(const Batch& batch) = 0;
  /// Makes a slot's recurrent states equal to a snapshot that Batch::state_copies made after n_tokens tokens.
  /// If `snapshot` is below 0, the states stay as they are but count as those after n_tokens tokens, for
  /// measurements. Call this on the engine thread, between steps, before the sequence's first step.
  virtual void restore_states([[maybe_unused]] int slot, [[maybe_unused]] int32_t snapshot,
                              [[maybe_unused]] int n_tokens) {}
  /// Copies the keys and values of a KV block, and of the window block with the same tokens, out of the cache
  /// [StepLimits::block_bytes], or back into any KV block and window block. Between steps, on the engine
  /// thread. REQUIRES: StepLimits::copies. window_block: not used without window blocks.
  virtual void copy_out([[maybe_unused]] int32_t block, [[maybe_unused]] int32_t window_block,
                        [[maybe_unused]] std::span<std::byte> out) const {}
  virtual void copy_in([[maybe_unused]] int32_t block, [[maybe_unused]] int32_t window_block,
                       [[maybe_unused]] std::span<const std::byte> in) {}
  /// Like copy_out() and copy_in(), but for a snapshot of recurrent states [StepLimits::state_bytes].
  virtual void copy_state_out([[maybe_unused]] int32_t snapshot,
                              [[maybe_unused]] std::span<std::byte> out) const {}
  virtual void copy_state_in([[maybe_unused]] int32_t snapshot,
                             [[maybe_unused]] std::span<const std::byte> in) {}
  /// Guesses tokens with the model's own layer for this (engine/forward/nextn_pass.h), between two steps. The
  /// batch has tokens, positions, slots, sequences and block tables; each slot occurs at most once. Returns
  /// the logits [n_tokens, n_vocab] of the token that follows each of them, valid until the next call of this
  /// object. If `first`, a token is the next one of its sequence, whose tokens before it have been computed:
  /// the next step begins with it. Otherwise it follows the slot's token of the last call, and is a guess.
  /// Engine thread only. REQUIRES: StepLimits::predicts; the block tables list KV blocks of the sequence for
  /// the tokens' positions, to which only the next step writes.
  virtual std::span<const float> predict([[maybe_unused]] const Batch& batch, [[maybe_unused]] bool first) {
    return {};
  }
  /// Applies the model's head to the pooled hidden state of a text [d_model], between two steps. Returns the
  /// scores of a pair of texts, or a vector that becomes the embedding; valid until the next call. Engine
  /// thread only. REQUIRES: StepLimits::has_head.
  virtual std::span<const float> apply_head(std::span<const float> pooled) { return pooled; }
  /// Tells observers that the last n_tokens tokens of a sequence in the last step were drafts that do not
  /// continue it. Call this on the engine thread, before the next step. sequence: as in Batch::sequences.
  virtual void reject_drafts([[maybe_unused]] uint64_t sequence, [[maybe_unused]] int n_tokens) {}
  /// Sets `figures` to the model's current figures. Call this on the engine thread, between steps; it takes a
  /// few hundred nanoseconds, and allocates nothing if this model has set the same object before. The neuron
  /// totals are zero if neurons are not counted, as in a dense pass that reads the rows as stored in the
  /// model file.
  virtual void read_figures(ModelFigures& figures) const { figures = {}; }
  /// Returns the figures that read_figures() reads.
  ModelFigures figures() const {
    ModelFigures figures;
    read_figures(figures);
    return figures;
  }
};

}  // namespace hearth
