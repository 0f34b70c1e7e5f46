// Observes the neurons of a model while it runs. Measures the share of active neurons, counts how often each
// neuron is active, and gives calibration and the training of predictors access to the neurons' activations.
// In a mixture of experts, it counts how often each expert is chosen instead of single neurons.
//
// Owned by ModelRuntime, which attaches it to the forward pass each time the model is placed. Counts are
// indexed by the neurons' numbers in the file, so counting continues when the model is placed again with its
// neurons in a different order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/activity/activity_counter.h"
#include "engine/activity/expert_recorder.h"
#include "engine/activity/live_activity.h"
#include "engine/forward/ffn_pass.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/sparsity.h"
#include "kernels/base/mutex.h"
#include "kernels/compute_device.h"

namespace hearth {

struct Plan;
class ExpertExchanger;
class Prefetcher;

class NeuronObservation {
 public:
  using Order = std::vector<std::vector<int32_t>>;

  /// spec and weights must outlive it. n_slots: maximum number of sequences in a batch; max_tokens: maximum
  /// number of tokens in one step; n_threads: number of threads that down_sizes() uses.
  NeuronObservation(const ModelSpec& spec, const Weights& weights, int n_slots, int max_tokens, int n_threads)
      : spec_(spec), weights_(weights), n_slots_(n_slots), max_tokens_(max_tokens), n_threads_(n_threads) {}

  /// The shares of neurons that forward() found active since the last reset. n_tokens is 0 if a dense pass
  /// reads the down projection as stored in the file, because such a pass does not find active neurons.
  /// Engine thread only.
  NeuronActivity activity() const;
  void reset_activity();

  /// One sentence with the reason why single neurons cannot be counted in the current placement; empty if
  /// they can be counted. A dense pass that reads the down projection as stored in the file cannot count
  /// them, because it does not handle neurons one by one.
  const std::string& why_not_counted() const { return run_.why_not_counted; }
  /// Returns the maximum number of tokens in a step whose neurons are counted. A GPU limits this number,
  /// because it reports the active neurons of a step in page-locked memory of limited size.
  int max_counted_tokens() const;
  /// Starts counting single neurons from zero. Call it before the engine thread runs, or on that thread.
  /// Throws std::invalid_argument (one sentence) if they cannot be counted.
  void count_activity(const CountOptions& options = {});
  /// Stops counting, and discards the counts that take_activity() has not returned. Call it before the engine
  /// thread runs, or on that thread.
  void end_counting();
  /// Pauses counting (true) or resumes it (false). Call it between steps. REQUIRES: count_activity() was
  /// called.
  void pause_activity(bool paused);
  /// Returns the counts since the last call, indexed by the neurons' numbers in the file; empty if nothing
  /// was counted. REQUIRES: count_activity() was called. Any thread.
  ActivityCounts take_activity();
  /// Starts recording the experts that tokens choose, for up to max_tokens tokens between two calls of
  /// take_experts(). If max_tokens is 0, stops recording. Discards the choices that take_experts() has not
  /// returned. Call it before the engine thread runs, or on that thread. REQUIRES: the model is a mixture of
  /// experts.
  void record_experts(int max_tokens);
  /// Adds to `trace` what was recorded since the last call; see ExpertRecorder::take(). REQUIRES: experts are
  /// recorded.
  bool take_experts(ExpertTraceWriter& trace) { return recorder_->take(trace); }
  /// Like take_experts(), but the next call of it adds everything again; see ExpertRecorder::copy().
  void copy_experts(ExpertTraceWriter& trace) { recorder_->copy(trace); }
  /// Returns a writer for a new, empty trace of the model. REQUIRES: the model is a mixture.
  ExpertTraceWriter trace_writer(const ModelIdentity& model, uint64_t max_tokens) const;

  /// Returns the Euclidean norms of the down columns, [n_layers, d_ff], indexed by the neurons' numbers in
  /// the file; empty for mixtures. Reads all down projections, a third of the FFN's bytes. Any thread.
  std::vector<float> down_sizes() const;

  /// Creates and returns the live view of neurons, which exists as long as the model. Call it once, before
  /// the engine thread runs. live_activity.h states which thread may call which function.
  LiveActivity& show_live();

  /// These two functions are for calibrated mode only (see FfnPass). set_thresholds() replaces the thresholds
  /// [n_layers]. observe_values() sets the function that gets the activations of neurons; an empty function
  /// removes it. Engine thread only.
  void set_thresholds(std::span<const float> thresholds);
  void observe_values(ValueObserver observer);
  /// Sets the observer, which gets the activations of all neurons in the file's order; null removes the
  /// observer. Before the observer is destroyed, remove it or destroy the model. Engine thread only.
  /// REQUIRES: the model was loaded dense, on the CPU.
  void observe_neurons(NeuronObserver* observer);

  // -- for ModelRuntime, between steps --

  /// The placed model to observe. Everything it refers to must stay valid until detach().
  struct Run {
    FfnPass* ffn = nullptr;
    ComputeDevice* device = nullptr;  // null: the CPU computes everything
    const Order* order = nullptr;     // the number in the file of each placed neuron; empty: the file's order
    Sparsity mode = Sparsity::kDense;
    std::string why_not_counted;
    const Plan* plan = nullptr;                  // null: there is no device
    const Prefetcher* prefetcher = nullptr;      // null: no prefetch
    const ExpertExchanger* exchanger = nullptr;  // null: no experts are exchanged
    MemoryByPlace memory = {};
  };
  /// Attaches to this run. If detach() interrupted a count, resumes it, unless this placement does not allow
  /// counting (Run::why_not_counted). Returns one sentence if resuming fails, else an empty string.
  std::string attach(Run run);
  void detach();
  /// Returns null if counting is off.
  ActivityCounter* counter() const { return counter_.get(); }
  /// Returns null if experts are not recorded. Any thread, except during record_experts().
  ExpertRecorder* recorder() const { return recorder_.get(); }
  /// Returns null if show_live() was not called.
  LiveActivity* live() const { return live_.get(); }

 private:
  void attach_live();
  std::string why_not_shown() const;
  void reserve_found(int max_tokens);
  void start_counting();
  void stop_counting();
  void keep() HEARTH_REQUIRES(mutex_);

  const ModelSpec& spec_;
  const Weights& weights_;
  const int n_slots_, max_tokens_, n_threads_;
  Run run_;
  CountOptions options_;
  bool interrupted_ = false;  // detach() has stopped a count
  int n_found_tokens_ = 0;    // maximum number of tokens in a step whose neurons the device can report
  std::unique_ptr<ExpertRecorder> recorder_;  // null: experts are not recorded
  std::unique_ptr<LiveActivity> live_;        // null: show_live() was not called

  Mutex mutex_;  // guards kept_, and the pointer counter_ for threads other than the engine's
  std::unique_ptr<ActivityCounter> counter_;
  ActivityCounts kept_ HEARTH_GUARDED_BY(mutex_);  // counts of destroyed counters
};

}  // namespace hearth
