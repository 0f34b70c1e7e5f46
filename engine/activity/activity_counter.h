// Counts which neurons are active while a model runs. For a mixture, counts which experts its tokens choose.
//
// NeuronObservation owns the counter. FfnObservers passes each layer's active neurons (ActiveNeurons) or
// chosen experts (ExpertChoice) to it, and the engine thread adds them up here. Nothing is allocated while
// the model runs. The engine thread waits only while take() swaps pointers. Counts do not depend on the
// number of threads or on how prompts are cut into chunks.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/activity/activity_counts.h"
#include "engine/step/batch.h"
#include "kernels/experts.h"
#include "kernels/neurons.h"

namespace hearth {

/// Which tokens are counted.
struct CountOptions {
  /// If true, counts only steps without prompt tokens, in which each running sequence has one token. If
  /// false, counts all steps.
  bool decode_only = false;
  /// If this is n, counts one in n of the steps that decode_only permits. If n > 1, counts two adjacent steps
  /// of every 2n, so that the counts include pairs of neighboring tokens.
  int one_of = 1;
};

class ActivityCounter {
 public:
  struct Shape {
    int n_layers = 0, d_ff = 0;  // d_ff: neurons (or experts) per layer
    bool experts = false;
    int n_slots = 1;     // sequences in a batch
    int max_tokens = 1;  // maximum number of tokens in a step
  };
  ActivityCounter(const Shape& shape, const CountOptions& options);

  /// Scope of one step of the model, on the engine thread. Counts the step if the options select it.
  class StepScope {
   public:
    /// `counter` may be null: nothing is counted.
    StepScope(ActivityCounter* counter, const Batch& batch);
    ~StepScope();
    StepScope(const StepScope&) = delete;
    StepScope& operator=(const StepScope&) = delete;

   private:
    ActivityCounter* counter_;  // null: this step is not counted
  };

  /// The buffers for the active neurons of this step's layers; null if the step is not counted.
  const ActiveNeurons* found() const { return counts_step_ ? &found_ : nullptr; }
  /// Counts the active neurons that the layer wrote to found(). Engine thread, within a StepScope, once per
  /// layer.
  void add(int layer);
  bool counts_experts() const { return shape_.experts; }
  /// Counts the experts that the layer's tokens chose; `choice` is in host memory. Not called for layers
  /// without experts. Engine thread, within a StepScope, once per layer. REQUIRES: counts_experts().
  void add(int layer, const ExpertChoice& choice);

  /// Stops (true) or resumes (false) counting. Engine thread, between steps.
  void pause(bool paused) { paused_ = paused; }

  /// Returns the counts since the last call. Neurons are numbered as in NeuronLayout, not as in the model
  /// file. Any thread; waits for the end of a step that is being counted.
  ActivityCounts take();

 private:
  /// A token of the step, and its predecessor in the sequence if the predecessor was counted.
  struct Token {
    int slot;
    // Index of the predecessor in this step. kInSlot: the predecessor was in an earlier step and is the
    // slot's last counted token. kNone: the predecessor was not counted.
    int before;
    bool last;                                               // last token of its slot in this step
    bool ends_window[ActivityCounts::kWindowTokens.size()];  // [window size] the token ends a window
  };
  static constexpr int kNone = -1, kInSlot = -2;

  bool may_count(const Batch& batch) const;
  void begin(const Batch& batch);
  void count_windows(Token& token);
  void add_windows(int layer);
  uint64_t* last_bits(int slot, int layer);
  uint64_t* window_bits(size_t window, int slot, int layer);

  const Shape shape_;
  const CountOptions options_;
  const size_t words_;

  // Engine thread.
  uint64_t n_countable_ = 0;  // steps that could be counted
  bool counts_step_ = false, paused_ = false;
  std::vector<uint64_t> bits_;
  std::vector<float> values_;
  ActiveNeurons found_;
  std::vector<Token> tokens_;  // tokens of the current step
  // [n_slots, n_layers, words] bit sets: the active neurons of the last counted token of each slot.
  std::vector<uint64_t> last_bits_;
  std::vector<int> last_position_;  // [n_slots] position of that token; -1: none
  static constexpr size_t kWindows = ActivityCounts::kWindowTokens.size();
  std::vector<std::array<int, kWindows>> in_window_;  // [n_slots] tokens in the incomplete windows
  // [kWindows, n_slots, n_layers, words] bit sets: the experts chosen in the incomplete windows.
  std::vector<uint64_t> window_bits_;

  std::mutex mutex_;  // held by a StepScope that counts
  ActivityCounts counts_;
};

}  // namespace hearth
