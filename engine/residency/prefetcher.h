// Copies cold neurons to the device's neuron cache before the next layers need them, while other layers
// compute.
//
// Two threads use it. The engine thread reports the neurons that each layer wanted and takes the neurons that
// have arrived (RowPrefetcher); it only waits for short critical sections and allocates nothing. The
// Prefetcher's own thread sleeps until there is news. Then, for each of the next layers, it picks neurons
// (NeuronCache), copies them (RowCopier) and lists them for the engine thread, which takes them in the
// layer's next step.
//
// If a predictor proposes a layer's neurons, those are copied; otherwise the neurons that each of the next
// layers wanted last time. The first layer follows the last one, for the next token.
//
// The number of copied neurons is chosen so that the link and the CPU, which computes the rest, finish
// together. The link copies all the time, and the CPU computes for part of it; the rest of a layer's time
// belongs to the link alone. If the device lacks n neurons, that gives (n r + a) / (1 + r) copies: the link
// copies r bundles while the CPU computes one, and `a` bundles while the CPU computes none. Both are measured
// while the engine runs, and fewer neurons are copied if copies still come too late. Neurons that arrive late
// or are not wanted cost time but never change a result.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/residency/neuron_cache.h"
#include "engine/step/model_figures.h"
#include "kernels/base/mutex.h"
#include "kernels/base/signal.h"
#include "kernels/row_copier.h"
#include "kernels/row_prefetcher.h"

namespace hearth {

/// A layer with shared neurons, and its neuron cache.
struct PrefetchLayer {
  int layer = 0;  // index of the layer in the model
  int64_t n_neurons = 0;
  std::span<const int32_t> hot;          // neurons that the device holds permanently
  int64_t n_hot = 0, n_device_rows = 0;  // the cache's device rows are [n_hot, n_device_rows), possibly none
  std::span<const int32_t> cached = {};  // initial neurons in the first of these rows
};

struct PrefetchOptions {
  int layers_ahead = 2;  // without a predictor: number of next layers for which neurons are copied
  /// Initial ratio of bundles that the link copies to bundles that the CPU computes in the same time, used
  /// until both are measured. PCIe 4 copies 25 GB/s; two channels of DDR5 read 70 GB/s, and about two thirds
  /// of that from scattered rows.
  double link_over_cpu = 0.5;
  /// Called once, with one sentence, if prefetch stops. From the Prefetcher's thread or the engine thread.
  std::function<void(const std::string& why)> stopped = {};
};

class Prefetcher final : public RowPrefetcher {
 public:
  /// `layers` are in model order. Starts the thread.
  Prefetcher(std::span<const PrefetchLayer> layers, std::unique_ptr<RowCopier> copier,
             PrefetchOptions options = {});
  ~Prefetcher() override;

  // Engine thread.
  std::span<const RowChange> changes(int layer) override;
  void enqueued(int layer, void* stream) override;
  void wanted(int layer, std::span<const uint64_t> any, std::span<const uint64_t> cold) override;
  void proposed(int layer, std::span<const uint64_t> any) override;
  void computed(int layer, double seconds) override;
  /// Called at the start and the end of every step of the model; hidden time is measured between them.
  void begin_step();
  void end_step();

  // Any thread.
  PrefetchCounters counters() const;
  std::string why_stopped() const;  // empty while it runs
  /// Sets `bits` [words] to the layer's neurons that the device knows to be in its cache. Returns false, with
  /// nothing copied, if the Prefetcher does not serve this layer.
  bool cached(int layer, std::span<uint64_t> bits) const;
  /// Waits until all neurons that are known to be needed, as far as device rows are free for them, are
  /// copied, or until prefetch stops. REQUIRES: the engine runs no step.
  void settle() const;

 private:
  using Clock = HostClock;

  /// One layer's state that both threads share. Guarded by mutex_ unless a member says otherwise.
  struct Exchange {
    std::vector<uint64_t> any;       // [words] neurons that its last step wanted
    std::vector<uint64_t> proposed;  // [words] neurons that a predictor proposed for its next step
    bool visited = false;            // the Prefetcher's thread has not read `any` yet
    bool has_proposal = false;
    // Number of steps that the device has begun, and their number when the Prefetcher last heard from the
    // layer. Arrivals after the next step has begun are too late.
    uint64_t n_begun = 0, next_step = 0;
    std::vector<RowChange> arrived;  // to report to the backend
    std::vector<RowChange> leaving;  // to report to the backend: leaving neurons and their device rows
    std::vector<int32_t> told;       // rows that the device now knows; to report to the Prefetcher's thread
    std::vector<int32_t> freed;      // rows no longer read; to report to the Prefetcher's thread
    std::vector<int32_t> emptied;    // engine thread only: device rows between changes() and enqueued()
    std::vector<uint64_t> hot;       // [words] neurons that the device holds permanently
    std::vector<uint64_t> coming;    // [words] neurons being copied and not counted as late
    std::vector<uint64_t> unused;    // [words] neurons on the device that were not yet wanted there
    std::vector<uint64_t> cached;    // [words] neurons that the device knows to be in the cache
    Clock::time_point reached;       // when the layer's last step began
  };

  /// One layer's state that only the Prefetcher's thread uses.
  struct LayerState {
    explicit LayerState(const PrefetchLayer& layer);
    int layer;
    NeuronCache cache;
    std::vector<uint64_t> any, proposed;
    bool visited = false, has_proposal = false;
    int64_t n_started = 0;  // copies started for its next step
    uint64_t step = 0;      // Exchange::next_step
  };

  /// Work per time; older measurements count less.
  class Rate {
   public:
    explicit Rate(double per_second) : amount_(per_second * kStart), seconds_(kStart) {}
    void add(double amount, double seconds);
    double per_second() const { return amount_ / seconds_; }

   private:
    /// The starting value counts like a measurement of this many seconds, about the time of a first copy.
    static constexpr double kStart = 1e-4;
    double amount_, seconds_;
  };

  struct StepSpan {
    Clock::time_point begin, end;
  };

  void run(const std::stop_token& stop);
  void take_news() HEARTH_REQUIRES(mutex_);
  bool serve(size_t index);
  int64_t number_to_bring(const LayerState& state, std::span<const uint64_t> predicted) const;
  bool move(size_t index);
  double hidden_seconds(const Exchange& exchange, double seconds, Clock::time_point end) const
      HEARTH_REQUIRES(mutex_);
  void stop_for(const char* why);
  size_t index_of(int layer) const { return index_of_[static_cast<size_t>(layer)]; }

  const PrefetchOptions options_;
  std::unique_ptr<RowCopier> copier_;
  std::vector<size_t> index_of_;  // index in the Prefetcher's lists, by layer number

  // Only the Prefetcher's thread.
  std::vector<LayerState> states_;
  std::vector<RowChange> moves_, leaving_;
  double part_ = 1;  // share of the copies computed in number_to_bring() that can arrive in time; adapted

  // Only the engine thread.
  std::vector<RowChange> changes_;
  int64_t n_cold_ = 0;  // neurons that the CPU is computing
  Clock::time_point
      computed_;  // when the CPU last finished a layer's neurons in this step; before that: the step's begin

  mutable Mutex mutex_;
  Signal news_come_;
  mutable std::condition_variable_any idle_now_;
  std::vector<Exchange> exchanges_;
  bool news_ HEARTH_GUARDED_BY(mutex_) = false;
  bool idle_ HEARTH_GUARDED_BY(mutex_) = false;
  bool stopping_ HEARTH_GUARDED_BY(mutex_) = false;
  size_t latest_ HEARTH_GUARDED_BY(mutex_) = 0;  // index of the layer that reported its wants last
  /// A predictor has proposed neurons; the neurons that earlier steps wanted then count for the next layer
  /// only.
  bool proposals_ HEARTH_GUARDED_BY(mutex_) = false;
  /// Index of the layer that the newest proposal is for, until that layer is served.
  std::optional<size_t> newest_proposal_ HEARTH_GUARDED_BY(mutex_);
  Rate link_ HEARTH_GUARDED_BY(mutex_), cpu_ HEARTH_GUARDED_BY(mutex_);  // bundles per second
  Rate layers_ HEARTH_GUARDED_BY(
      mutex_);  // layers per second, not counting the time in which the CPU computes neurons
  // The last steps. The current step ends at the clock's largest value.
  std::array<StepSpan, 8> steps_ HEARTH_GUARDED_BY(mutex_){};
  size_t step_ HEARTH_GUARDED_BY(mutex_) = 0;
  PrefetchCounters counters_ HEARTH_GUARDED_BY(mutex_);
  std::string why_stopped_ HEARTH_GUARDED_BY(mutex_);

  std::jthread thread_;  // last member: starts after all others are constructed
};

}  // namespace hearth
