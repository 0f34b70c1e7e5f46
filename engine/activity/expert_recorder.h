// Records which experts a mixture's tokens choose while the model runs, as runs of a trace
// (engine/activity/expert_trace.h).
//
// Owned by NeuronObservation; FfnObservers hands over each layer's choices on the engine thread. Several
// sequences may be in one step; the recorder keeps each sequence's tokens together and in order. The
// constructor reserves all memory, and nothing is allocated while the model runs.
#pragma once

#include <cstdint>
#include <mutex>
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
    int n_slots = 1;     // sequences in a batch
    int max_tokens = 1;  // maximum number of tokens between two calls of take()
  };
  explicit ExpertRecorder(const Shape& shape);

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

  /// Whether the current step is recorded. false: there is no step, or no room for its tokens.
  bool records_step() const { return records_step_; }
  /// Records the experts that the layer's tokens chose; `choice` is in host memory. Engine thread, within a
  /// StepScope that records, once per layer with experts. A step is left out unless all layers are added.
  void add(int layer, const ExpertChoice& choice);

  /// Adds what was recorded since the last call to `trace`, sequence by sequence. A sequence that continues
  /// after this call counts as a new sequence. A token that belongs to no prompt counts as generated, even if
  /// it was a rejected draft. Returns false if steps are missing: there was no room for them, or they ended
  /// early. Any thread; waits for the end of a step that is being recorded.
  bool take(ExpertTraceWriter& trace);

 private:
  struct Token {
    uint32_t sequence;
    TraceText text;
  };

  void begin(const Batch& batch);
  void end();
  size_t token_experts() const { return layers_.size() * static_cast<size_t>(n_used_); }

  const std::vector<TracedLayer> layers_;
  const int n_used_;
  const size_t max_tokens_;

  // Engine thread.
  bool records_step_ = false;
  size_t first_token_ = 0, n_layers_added_ = 0;  // positions of the current step

  std::mutex mutex_;  // held by a StepScope that records
  std::vector<Token> tokens_;
  std::vector<uint16_t> experts_;       // [tokens, layers, n_used]
  std::vector<uint32_t> sequence_;      // [n_slots] number of each slot's sequence
  std::vector<int32_t> last_position_;  // [n_slots] position of the slot's last token; -1: none since take()
  uint32_t n_sequences_ = 0;
  bool left_out_ = false;
};

}  // namespace hearth
