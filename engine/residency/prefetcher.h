// Copies cold neurons to the device's neuron cache before the next layers need them, while other layers
// compute.
//
// Two threads use a Prefetcher. The engine thread reports the neurons that each layer wanted, and takes the
// neurons that have arrived (RowPrefetcher). It waits only for short critical sections and allocates nothing.
// The Prefetcher's own thread sleeps until there is a report. Then, for each of the next layers, it picks
// neurons (NeuronCache), copies them (RowCopier) and lists them for the engine thread, which takes them in
// the layer's next step.
//
// If a predictor proposes neurons of a layer, the proposed neurons are copied. Otherwise the copied neurons
// are those that each of the next layers wanted in its previous step. The layer after the last one is the
// first layer, for the next token.
//
// The number of copied neurons is chosen so that the link and the CPU, which computes the rest, finish
// together. The link copies throughout a layer, but the CPU computes during only part of the layer. If the
// device lacks n neurons, the number of copies is (n r + a) / (1 + r). Here r is the number of bundles that
// the link copies while the CPU computes one, and `a` is the number that the link copies while the CPU is
// idle. These two numbers are measured while the engine runs, and fewer neurons are copied if copies still
// come too late. Neurons that arrive late or are not wanted cost time but never change a result.
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
  std::span<const int32_t> hot;  // neurons that the device holds permanently
  // The device rows of the cache are [n_hot, n_device_rows), possibly none.
  int64_t n_hot = 0, n_device_rows = 0;
  std::span<const int32_t> cached = {};  // neurons that are in the cache at first, from row n_hot on
};

struct PrefetchOptions {
  // Without a predictor: number of next layers for which neurons are copied.
  int layers_ahead = 2;
  /// The number of bundles that the link copies while the CPU computes one: an initial value, used until the
  /// rates of both are measured. PCIe 4 copies 25 GB/s. Two channels of DDR5 read 70 GB/s, or about two
  /// thirds of that if rows are scattered.
  double link_over_cpu = 0.5;
  /// Called once, with one sentence, if prefetch stops. It may be called on the Prefetcher's thread or on the
  /// engine thread.
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
  /// Call these at the start and the end of every step of the model. Only copy time within a step can count
  /// as hidden (PrefetchCounters::hidden_seconds).
  void begin_step();
  void end_step();

  // Any thread.
  PrefetchCounters counters() const;
  std::string why_stopped() const;  // empty while it runs
  /// Sets `bits` [words] to the neurons of the layer that are in the device's cache according to the changes
  /// reported to the device so far. If the Prefetcher does not serve this layer, returns false and leaves
  /// `bits` unchanged.
  bool cached(int layer, std::span<uint64_t> bits) const;
  /// Waits until the neurons of all reports have been copied, as far as there were free device rows for them,
  /// or until prefetch stops. REQUIRES: the engine runs no step.
  void settle() const;

 private:
  using Clock = HostClock;

  /// The state of one layer that both threads share. Guarded by mutex_ unless a member's comment names its
  /// thread.
  struct Exchange {
    std::vector<uint64_t> any;       // [words] neurons that the layer's last step wanted
    std::vector<uint64_t> proposed;  // [words] neurons that a predictor proposed for the layer's next step
    bool visited = false;            // `any` is new: the Prefetcher's thread has not read it yet
    bool has_proposal = false;
    // n_begun: number of the layer's steps that the device has begun. next_step: n_begun when the engine
    // thread last reported the layer's neurons. Arrivals are too late once n_begun exceeds next_step.
    uint64_t n_begun = 0, next_step = 0;
    std::vector<RowChange> arrived;  // to report to the backend
    std::vector<RowChange> leaving;  // to report to the backend: leaving neurons and their device rows
    // Rows that have been reported to the backend; the Prefetcher's thread takes them.
    std::vector<int32_t> told;
    // Rows that the device no longer reads; the Prefetcher's thread takes them.
    std::vector<int32_t> freed;
    // Engine thread only: device rows emptied between changes() and enqueued().
    std::vector<int32_t> emptied;
    std::vector<uint64_t> hot;     // [words] neurons that the device holds permanently
    std::vector<uint64_t> coming;  // [words] neurons that are being copied and are not late so far
    std::vector<uint64_t> unused;  // [words] copied neurons that no step has wanted since they arrived
    // [words] Neurons in the device's cache, according to the changes reported to the device so far.
    std::vector<uint64_t> cached;
    Clock::time_point reached;  // start of the layer's last step
  };

  /// The state of one layer that only the Prefetcher's thread uses.
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
    /// The initial value counts like a measurement of this many seconds, which is about the time of a first
    /// copy.
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
  std::vector<size_t> index_of_;  // for each layer number: the layer's index in the Prefetcher's lists

  // Only the Prefetcher's thread.
  std::vector<LayerState> states_;
  std::vector<RowChange> moves_, leaving_;
  // number_to_bring() multiplies the number of copies by this share. The share falls after a copy that came
  // too late, and rises otherwise.
  double part_ = 1;

  // Only the engine thread.
  std::vector<RowChange> changes_;
  int64_t n_cold_ = 0;  // neurons that the CPU is computing
  // When the CPU last finished a layer's neurons in this step. Before the first layer: when the step began.
  Clock::time_point computed_;

  mutable Mutex mutex_;
  Signal news_come_;
  mutable std::condition_variable_any idle_now_;
  std::vector<Exchange> exchanges_;
  bool news_ HEARTH_GUARDED_BY(mutex_) = false;
  bool idle_ HEARTH_GUARDED_BY(mutex_) = false;
  bool stopping_ HEARTH_GUARDED_BY(mutex_) = false;
  size_t latest_ HEARTH_GUARDED_BY(mutex_) = 0;  // index of the layer whose wanted neurons were reported last
  /// Whether a predictor has proposed neurons so far. If true, the neurons of a layer's previous step are
  /// copied only for the next layer, not for layers_ahead layers.
  bool proposals_ HEARTH_GUARDED_BY(mutex_) = false;
  /// Index of the layer of the newest proposal; nullopt once the Prefetcher has served that layer.
  std::optional<size_t> newest_proposal_ HEARTH_GUARDED_BY(mutex_);
  Rate link_ HEARTH_GUARDED_BY(mutex_), cpu_ HEARTH_GUARDED_BY(mutex_);  // bundles per second
  Rate layers_ HEARTH_GUARDED_BY(
      mutex_);  // layers per second, not counting the time in which the CPU computes neurons
  // The last steps. The end of the current step is the largest value of the clock.
  std::array<StepSpan, 8> steps_ HEARTH_GUARDED_BY(mutex_){};
  size_t step_ HEARTH_GUARDED_BY(mutex_) = 0;
  PrefetchCounters counters_ HEARTH_GUARDED_BY(mutex_);
  std::string why_stopped_ HEARTH_GUARDED_BY(mutex_);

  std::jthread thread_;  // last member, so that it starts after all others are constructed
};

}  // namespace hearth
