// Runs the layers that predict later tokens (engine/model/nextn_weights.h), beside the model's own pass.
//
// A layer has keys and values for the positions of its model's KV blocks, so prefixes that the engine keeps
// have them too. At each position, the layer needs the hidden state of an earlier token. Tokens of prompts go
// through the layer in the step that computes them. Those of answers wait until the next prediction, which
// needs one pass through the layer for all of them, or until kMostWaiting of them wait. Where each head
// guesses one token, those of answers wait until a draft reaches the head.
//
// Predictions are guesses, so a hidden state may be missing: after a prefix from the cache, the first token's
// is taken as zeros. The last tokens of a sequence may never have gone through the layer when another
// sequence continues them; then the layer sees what is in the memory, which is at least initialized. Neither
// changes an answer, only how many guesses are right.
//
// A device has the layers or all but their experts, or the CPU computes everything (NextnShare). The tokens'
// embeddings come from host memory. So do hidden states, except those of prompts, which stay on the device.
//
// ModelRuntime owns it; engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/forward/nextn_on_device.h"
#include "engine/model/nextn_weights.h"
#include "engine/neurons/placement.h"
#include "engine/step/batch.h"
#include "kernels/backend.h"

namespace hearth {

class NextnPass {
 public:
  /// devices: those of model_pass, the model's, whose buffers and scratch memory this pass uses between the
  /// model's steps; it was made with bounds_with_nextn(). share: the device's part of the layers. model: see
  /// NextnOnDevice. counts: the model's. bounds: the model's; n_states is the number of slots. All references
  /// must outlive this object. Throws std::bad_alloc.
  NextnPass(const Devices& devices, const NextnWeights& weights, NextnShare share, const ModelWeights& model,
            const ForwardPass& model_pass, const KvBlockCounts& counts, const PassBounds& bounds);

  /// Bytes that the constructor allocates: of keys and values at one position, and of everything else in host
  /// memory. Doubles, so that absurd sizes do not overflow.
  static double kv_position_bytes(const NextnWeights& weights, KvType type);
  static double bytes_needed(const NextnWeights& weights, const PassBounds& bounds);
  /// Bytes that the constructor allocates in a device's memory, without keys and values. model: as the file
  /// stores it.
  static size_t device_bytes(const NextnWeights& weights, NextnShare share, const Weights& model,
                             const PassBounds& bounds);

  /// The part of device_bytes() that is scratch of steps. REQUIRES: the share is not kNone.
  static size_t step_bytes(const NextnWeights& weights, const PassBounds& bounds);

  /// Call after each step of the model. hidden: ForwardPass::hidden_rows().
  void after_step(const Batch& batch, const HiddenRows& hidden);

  /// See ForwardModel::predict() and StepLimits::most_predicted.
  std::span<const float> predict(const Batch& batch, bool first);
  int most_predicted() const {
    return weights_.spec.arch.nextn_heads ? weights_.n_heads() : std::numeric_limits<int>::max();
  }

  size_t kv_bytes() const;
  /// Bytes of the keys and values of one KV block, and copies of them: see KvMemory.
  size_t block_bytes() const;
  void copy_out(int32_t block, std::span<std::byte> out) const;
  void copy_in(int32_t block, std::span<const std::byte> in) const;

 private:
  // Tokens of a sequence that wait for a head.
  static constexpr int kMostWaiting = 32;

  /// One of NextnWeights::heads, with its keys and values. Its pass refers to the other members.
  struct Head {
    Head(const NextnPass& owner, int index, NextnShare share, const ModelWeights& model,
         const ForwardPass& model_pass, const KvBlockCounts& counts);

    const NextnHead& weights;
    std::optional<NextnOnDevice> on_device;  // nullopt: the CPU computes the layer
    KvMemory kv;
    ForwardPass pass;
  };

  /// The tokens and hidden states of a slot's sequence that a head has or needs.
  struct Slot {
    uint64_t sequence = 0;
    /// [n_heads] A head's keys and values are right for the positions [0, n_done).
    std::vector<int> n_done;
    /// The tokens of the positions from `first` on, and their hidden states. Hidden states before `first` are
    /// not needed or not known.
    int first = 0;
    std::vector<int32_t> tokens;
    std::vector<float> hidden;     // [tokens.size(), d_model]
    std::vector<int32_t> guesses;  // the tokens of the calls of predict() since the last one with `first`
    std::vector<float> guessed;    // [d_model] h' of the last prediction, for the next one; without heads

    int end() const { return first + static_cast<int>(tokens.size()); }
  };
  /// The tokens [begin, end) of a step, which belong to one sequence.
  struct Piece {
    size_t begin = 0, end = 0;
    int certain_end = 0;     // the position after the last token that is no draft
    bool of_prompt = false;  // any token is
    bool on_device = false;  // only the hidden states of the last tokens are in host memory
    size_t kept = 0;         // where its hidden states in kept_ begin, if on_device
    int n_host = 0;          // hidden states in host memory: of the last tokens
  };

  Slot& slot_of(const Batch& batch, size_t token) { return slots_[static_cast<size_t>(batch.slots[token])]; }
  void go_to(Slot& slot, uint64_t sequence, int position) const;
  void begin_draft(const Batch& batch);
  void forget_done(Slot& slot) const;
  void keep(Slot& slot, const Batch& batch, const Piece& piece) const;
  const float* hidden_before(const Slot& slot, int position) const;
  void list_pieces(const Batch& batch, const HiddenRows& hidden);
  void add_row(const Batch& batch, size_t token, int32_t id, int position, const float* hidden);
  void add_row_on_device(const Batch& batch, size_t token, int32_t row);
  void add_waiting(int head, const Batch& batch, size_t token, int end);
  void add_prompt(int head, const Batch& batch, const Piece& piece);
  void add_before(int head, const Batch& batch, size_t token);
  void run_if_full(int head, const Batch& batch);
  std::span<const float> run(int head, const Batch& batch);
  void join_on_device(Backend& device, int n);
  void fill_on_device(Backend& device, const NextnOnDevice& head, int n, float* x);

  Backend& cpu_;
  const NextnWeights& weights_;
  const PassBounds bounds_;
  const Devices devices_;  // of a model that consists of one head
  std::vector<std::unique_ptr<Head>> heads_;
  Buffer embedded_, joined_;    // [max_tokens, d_model | 2 * d_model]
  Buffer joined_on_device_;     // [max_tokens, 2 * d_model]; empty without a device
  std::vector<float> nothing_;  // [d_model] zeros
  std::vector<Slot> slots_;
  int n_guessed_ = 0;  // calls of predict() since the last one with `first`
  std::vector<Piece> pieces_;
  /// Copies of the hidden states in host memory of the pieces whose others are on the device, [n, d_model]:
  /// the passes of the heads overwrite HiddenRows::host.
  std::vector<float> kept_;
  Batch rows_;  // rows of the next pass
  /// The hidden states that belong to these rows: [n, d_model] in host memory, of the n rows whose
  /// given_rows_ is -1. The others index rows of HiddenRows::device.
  std::vector<float> given_;
  std::vector<int32_t> given_rows_;
  std::vector<int32_t> gathered_;
  const float* hidden_on_device_ = nullptr;
};

/// Returns the bounds of the model's own pass, so that a NextnPass can share its backend.
PassBounds bounds_with_nextn(PassBounds bounds, const NextnWeights& weights);

}  // namespace hearth
