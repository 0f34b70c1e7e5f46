// Counts which neurons are active while a model runs, or which experts of a mixture its tokens choose.
//
// Owned by ModelRuntime, fed by its passes: FfnPass hands over what each layer found (ActiveNeurons, ExpertChoice), the
// engine thread adds it up here. Nothing is allocated while the model runs, and the engine thread never
// waits for more than take()'s exchange of pointers. Counts are the same for any thread count and any
// chunking of prompts.
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
  /// false: all. true: those of steps that only decode, one token of each running sequence.
  bool decode_only = false;
  /// n: of every 2n steps that may be counted, two that follow one another, so that neighbours are seen
  /// together. 1: every step.
  int one_of = 1;
};

class ActivityCounter {
 public:
  struct Shape {
    int n_layers = 0, d_ff = 0;  // d_ff: neurons, or experts, of a layer
    bool experts = false;
    int n_slots = 1;     // sequences of a batch
    int max_tokens = 1;  // of a step
  };
  ActivityCounter(const Shape& shape, const CountOptions& options);

  /// One step of the model, engine thread. Counts it, or not, as the options say.
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

  /// Where a layer of this step writes its active neurons; null: the step is not counted.
  const ActiveNeurons* found() const { return counts_step_ ? &found_ : nullptr; }
  /// Counts the active neurons that the layer wrote there. Engine thread, within a Step, once for each layer.
  void add(int layer);
  bool counts_experts() const { return shape_.experts; }
  /// Counts the experts that the layer's tokens chose, in host memory; no call for layers without experts. Engine thread,
  /// within a Step, once for each layer. REQUIRES: counts_experts().
  void add(int layer, const ExpertChoice& choice);

  /// Stops (true) or resumes (false) counting. Engine thread, between steps.
  void pause(bool paused) { paused_ = paused; }

  /// Returns the counts since the last call, in the layers' order of neurons. Any thread; waits for the end
  /// of a step that is being counted.
  ActivityCounts take();

 private:
  /// A token of the step, and the token before it in its sequence if that was counted.
  struct Token {
    int slot;
    int before;  // index into the step; kInSlot: the slot's last; kNone
    bool last;   // of its slot in this step
    bool ends_window[ActivityCounts::kWindowTokens.size()];  // is a window's last token
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
  uint64_t n_countable_ = 0;  // steps
  bool counts_step_ = false, paused_ = false;
  std::vector<uint64_t> bits_;
  std::vector<float> values_;
  ActiveNeurons found_;
  std::vector<Token> tokens_;        // of the step
  std::vector<uint64_t> last_bits_;  // [n_slots, n_layers, words] of each slot's last counted token
  std::vector<int> last_position_;   // [n_slots] its position; -1: none
  static constexpr size_t kWindows = ActivityCounts::kWindowTokens.size();
  std::vector<std::array<int, kWindows>> in_window_;  // [n_slots] tokens of the windows that are not full
  std::vector<uint64_t> window_bits_;  // [kWindows, n_slots, n_layers, words] the experts that these chose

  std::mutex mutex_;  // held by a Step that counts
  ActivityCounts counts_;
};

}  // namespace hearth
