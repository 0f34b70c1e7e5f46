// Brings the cold neurons that the next layers will need to the device's neuron cache while layers compute.
//
// Two threads. The engine's tells what each layer wanted and takes what has arrived (NeuronTraffic); it never
// waits but for a short critical section, and allocates nothing. The Prefetcher's own thread sleeps until
// there is news, then for each of the next layers picks neurons (NeuronCache), has them copied (BundleMover)
// and puts them where the engine's thread finds them at the layer's next step.
//
// Where a predictor has proposed the next layer's neurons, those are what it will need; else what each of the
// next layers wanted last time. After the last layer comes the first, of the next token.
//
// How many: so that the CPU, with what is left to it, and the link finish together. Of n neurons that the
// device lacks, n * r / (1 + r), where r is how many bundles the link brings while the CPU computes one; both
// are measured while running. Neurons that come too late or are not wanted after all cost time, and never
// change a result.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/residency/neuron_cache.h"
#include "kernels/bundle_mover.h"
#include "kernels/mutex.h"
#include "kernels/neuron_traffic.h"

namespace hearth {

/// A layer whose neurons are shared, and its cache.
struct PrefetchLayer {
  int layer = 0;  // its number in the model
  int64_t n_neurons = 0;
  std::span<const int32_t> hot;          // neurons that the device has for good
  int64_t n_hot = 0, n_device_rows = 0;  // the cache's device rows are [n_hot, n_device_rows), maybe none
};

struct PrefetchOptions {
  int layers_ahead = 2;  // where nothing is proposed: of so many next layers neurons are brought
  /// Bundles that the link brings while the CPU computes one, before either is measured. PCIe 4 brings 25
  /// GB/s and two channels of DDR5 give 70 GB/s, of which scattered rows get about two thirds.
  double link_over_cpu = 0.5;
  /// Told, from the Prefetcher's thread or the engine's, if nothing is brought any more: one sentence, once.
  std::function<void(const std::string& why)> stopped = {};
};

/// Since the Prefetcher was made. A bundle is a neuron's rows.
struct PrefetchCounters {
  int64_t moved = 0;           // bundles that were copied
  int64_t used = 0;            // of these, wanted at least once while the device had them
  int64_t late = 0;            // of these, wanted while they were still on their way
  int64_t evicted = 0;         // of these, gone again
  int64_t evicted_unused = 0;  // of those, never used
  int64_t bytes = 0;
  double copy_seconds = 0;  // the link was at it
  /// Of these, those hidden behind compute: within a step, and before the step came to the layer that the
  /// copied neurons are for. (What is copied after that, or between steps, is not.)
  double hidden_seconds = 0;
};

class Prefetcher final : public NeuronTraffic {
 public:
  /// `layers` in the order of the model. Starts the thread.
  Prefetcher(std::span<const PrefetchLayer> layers, std::unique_ptr<BundleMover> mover,
             PrefetchOptions options = {});
  ~Prefetcher() override;

  // Engine thread.
  std::span<const RowChange> changes(int layer) override;
  void enqueued(int layer, void* stream) override;
  void wanted(int layer, std::span<const uint64_t> any, std::span<const uint64_t> cold,
              std::span<const uint64_t> proposed_for_next) override;
  void computed(int layer, double seconds) override;
  /// Around every step of the model; hidden time is told by them.
  void begin_step();
  void end_step();

  // Any thread.
  PrefetchCounters counters() const;
  std::string why_stopped() const;  // empty while it runs
  /// Waits until all that is known to be needed and has room has been copied, or nothing is any more. The
  /// engine must be still.
  void settle() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// One layer as the two threads share it. Under mutex_, unless said otherwise.
  struct Exchange {
    std::vector<uint64_t> any;       // [words] what its last step wanted
    std::vector<uint64_t> proposed;  // [words] what a predictor proposed for its next one
    bool visited = false;            // `any` is new to the Prefetcher's thread
    bool has_proposal = false;
    std::vector<RowChange> arrived;  // to be told to the backend
    std::vector<RowChange> leaving;  // the same: neurons, and the device rows they have
    std::vector<int32_t> told;       // rows whose neurons the device knows of, new to the Prefetcher's thread
    std::vector<int32_t> freed;      // device rows that nobody reads any more, the same
    std::vector<int32_t> emptied;    // engine's thread only: device rows between changes() and enqueued()
    std::vector<uint64_t> coming;    // [words] on their way, and not yet found late
    std::vector<uint64_t> unused;    // [words] on the device, and not yet wanted there
    Clock::time_point reached;       // when its last step began
  };

  /// One layer as the Prefetcher's thread knows it.
  struct LayerState {
    explicit LayerState(const PrefetchLayer& layer);
    int layer;
    NeuronCache cache;
    std::vector<uint64_t> any, proposed;
    bool visited = false, has_proposal = false;
    int64_t n_started = 0;  // neurons for its next step
  };

  /// What was done in how much time, old measurements fading.
  class Rate {
   public:
    explicit Rate(double per_second) : amount_(per_second * kStart), seconds_(kStart) {}
    void add(double amount, double seconds);
    double per_second() const { return amount_ / seconds_; }

   private:
    static constexpr double kStart = 1e-4;  // seconds that the starting value weighs: a first copy's worth
    double amount_, seconds_;
  };

  struct StepSpan {
    Clock::time_point begin, end;
  };

  void run(const std::stop_token& stop);
  void take_news() HEARTH_REQUIRES(mutex_);
  bool serve(size_t index);
  int64_t number_to_bring(const LayerState& state, std::span<const uint64_t> predicted) const;
  void move(size_t index);
  double hidden_seconds(const Exchange& exchange, double seconds, Clock::time_point end) const
      HEARTH_REQUIRES(mutex_);
  void stop_for(const char* why);
  size_t index_of(int layer) const { return index_of_[static_cast<size_t>(layer)]; }

  const PrefetchOptions options_;
  std::unique_ptr<BundleMover> mover_;
  std::vector<size_t> index_of_;  // by layer number

  // Prefetcher's thread.
  std::vector<LayerState> states_;
  std::vector<RowChange> moves_, leaving_;

  // Engine's thread.
  std::vector<RowChange> changes_;
  int64_t n_cold_ = 0;  // neurons that the CPU is computing

  mutable Mutex mutex_;
  std::condition_variable_any news_come_;
  mutable std::condition_variable_any idle_now_;
  std::vector<Exchange> exchanges_;
  bool news_ HEARTH_GUARDED_BY(mutex_) = false;
  bool idle_ HEARTH_GUARDED_BY(mutex_) = false;
  bool stopping_ HEARTH_GUARDED_BY(mutex_) = false;
  size_t latest_ HEARTH_GUARDED_BY(mutex_) = 0;       // whose wants came last
  bool proposals_ HEARTH_GUARDED_BY(mutex_) = false;  // predictors propose: wants of earlier steps tell less
  Rate link_ HEARTH_GUARDED_BY(mutex_), cpu_ HEARTH_GUARDED_BY(mutex_);  // bundles per second
  // The last steps; the present one ends at the clock's end.
  std::array<StepSpan, 8> steps_ HEARTH_GUARDED_BY(mutex_){};
  size_t step_ HEARTH_GUARDED_BY(mutex_) = 0;
  PrefetchCounters counters_ HEARTH_GUARDED_BY(mutex_);
  std::string why_stopped_ HEARTH_GUARDED_BY(mutex_);

  std::jthread thread_;  // last: begins when all else is there
};

}  // namespace hearth
