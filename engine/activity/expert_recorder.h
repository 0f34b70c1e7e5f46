// Records which experts a mixture's tokens choose while the model runs, as runs of a trace
// (engine/activity/expert_trace.h).
//
// Owned by NeuronObservation; FfnObservers hands over each layer's choices on the engine thread. Several
// sequences may be in one step; the recorder keeps each sequence's tokens together and in order. The
// constructor reserves all memory, and nothing is allocated while the model runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "engine/activity/expert_trace.h"
#include "engine/step/batch.h"
#include "kernels/experts.h"

namespace hearth {

class ExpertRecorder {
 public:
  struct Shape {
    std::vector<TracedLayer> layers;
    int n_used = 0;      // experts of a token
    int max_tokens = 1;  // maximum number of tokens between two calls of take()
  };
  explicit ExpertRecorder(const Shape& shape);
  /// Bytes of memory for a token of a model with n_layers layers with experts.
  static constexpr uint64_t token_bytes(int n_layers, int n_used) {
    return sizeof(Token) + sizeof(uint16_t) * static_cast<uint64_t>(n_layers) * static_cast<uint64_t>(n_used);
  }

  /// Scope of one step of the model, on the engine thread.
  class StepScope {
   public:
    /// `recorder` may be null: nothing is recorded.
    StepScope(ExpertRecorder* recorder, const Batch& batch);
    ~StepScope();
    StepScope(const StepScope&) = delete;
    StepScope& operator=(const StepScope&) = delete;

   private:
    ExpertRecorder* recorder_;  // null: this step is not recorded
  };

  /// Whether the current step is recorded. false: there is no step, or the recorder is full.
  bool records_step() const { return records_step_; }
  /// Records the experts that the layer's tokens chose; `choice` is in host memory. Engine thread, within a
  /// StepScope that records, once per layer with experts. A step is left out unless all layers are added.
  void add(int layer, const ExpertChoice& choice);
  /// Removes the sequence's last n_tokens tokens from the last step: ForwardModel::reject_drafts().
  void reject(uint64_t sequence, int n_tokens);

  /// Whether a step had no room. Later steps are then not recorded until the next take(). Any thread.
  bool full() const { return full_.load(std::memory_order_relaxed); }

  // -- one thread at a time --

  /// Adds what was recorded since the last call to `trace`, sequence by sequence, each token once (a sequence
  /// that was set back computes tokens again). A sequence that continues after this call counts as a new
  /// sequence. A token that belongs to no prompt counts as generated. Returns false if steps are missing: the
  /// recorder was full, or they ended early. Waits for the end of a step that is being recorded.
  bool take(ExpertTraceWriter& trace);
  /// Adds to `trace` what take() would add, but without the last step, whose drafts may still be rejected.
  /// The next take() adds it all. Waits for the end of a step, but steps may run while it copies.
  void copy(ExpertTraceWriter& trace);

 private:
  struct Token {
    uint64_t sequence;
    int32_t position;
    TraceText text;
  };

  void begin(const Batch& batch);
  void end();
  void add_sequences(std::span<const Token> tokens, std::span<const uint16_t> experts,
                     ExpertTraceWriter& trace) const;
  size_t token_experts() const { return layers_.size() * static_cast<size_t>(n_used_); }

  const std::vector<TracedLayer> layers_;
  const int n_used_;
  const size_t max_tokens_;

  std::atomic<bool> full_{false};

  // Engine thread.
  bool records_step_ = false;
  size_t n_layers_added_ = 0;  // of the current step

  std::mutex mutex_;        // held by a StepScope that records
  size_t first_token_ = 0;  // of the last step
  // The elements before first_token_ do not change until take(), and never move, so copy() may read them
  // without the mutex.
  std::vector<Token> tokens_;
  std::vector<uint16_t> experts_;  // [tokens, layers, n_used]
  bool left_out_ = false;
};

}  // namespace hearth
