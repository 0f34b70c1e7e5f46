// Shows a running model's neurons to viewers. Viewers see which neurons fire (or which experts of a mixture
// are chosen) in sampled decoding steps, averaged over buckets of neighboring neurons. They also see where
// the neurons are stored.
//
// NeuronObservation owns it, FfnObservers passes each layer's active neurons to it, and the server's event
// stream reads it. Without viewers, the engine thread only reads one flag per step. With viewers, it writes a
// sampled step to its own buffer and swaps this buffer with the readers' buffer when the step ends. It
// allocates nothing and waits at most for a copy of one buffer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/neurons/placement.h"
#include "engine/step/batch.h"
#include "kernels/base/mutex.h"
#include "kernels/experts.h"
#include "kernels/neurons.h"

namespace hearth {

/// Bytes that a loaded model takes, by location.
struct MemoryByPlace {
  uint64_t vram = 0;
  uint64_t ram = 0;   // reserved at load, without the file's pages
  uint64_t file = 0;  // size of the mapped model file
  uint64_t kv = 0;    // keys and values; included in vram and ram
};

/// A level gives the share of a bucket's units (neurons or experts) that are, for example, active or hot, on
/// a scale from 0 (none) to kFullLevel (all).
using Levels = std::vector<uint8_t>;  // [n_layers, n_buckets]

/// Facts that do not change until the model is placed again.
struct LivePlacement {
  uint64_t number = 0;  // differs for each placement
  int n_layers = 0, n_units = 0, n_buckets = 0;
  bool experts = false;     // units are experts, not neurons
  std::string why_nothing;  // one sentence if no activity can be shown; otherwise empty
  Levels hot;               // units that a device holds permanently; empty if there is no device
  bool has_cache = false;   // the device also holds units temporarily (LiveActivity::cached())
  MemoryByPlace memory;
};

/// The result of one sampled step.
struct LiveStep {
  uint64_t number = 0;  // counts sampled steps; 0: none yet
  int n_tokens = 0;
  double active = 0;  // share of units that fired, averaged over tokens and layers
  Levels levels;      // share of active units in each bucket, averaged over tokens
};

class LiveActivity {
 public:
  static constexpr int kMaxBuckets = 256, kFullLevel = 15;
  static constexpr std::chrono::milliseconds kInterval{200};  // minimum time between sampled steps

  struct Shape {
    int n_layers = 0, n_units = 0;  // units per layer: neurons or experts
    bool experts = false;
    int max_tokens = 1;  // maximum number of tokens in a sampled step
  };
  // called only while there are viewers
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  explicit LiveActivity(const Shape& shape, std::chrono::milliseconds interval = kInterval,
                        Clock now = std::chrono::steady_clock::now);

  /// Sets the bits of the layer's units that are in the device's cache now. Returns false if the layer has no
  /// cache. Any thread.
  using CachedNeurons = std::function<bool(int layer, std::span<uint64_t> bits)>;

  // -- any thread --

  /// Steps are sampled while a Watch exists.
  class Watch {
   public:
    explicit Watch(LiveActivity& live) : live_(live) {
      live_.n_watchers_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Watch() { live_.n_watchers_.fetch_sub(1, std::memory_order_relaxed); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    LiveActivity& live_;
  };
  LivePlacement placement() const;
  uint64_t placement_number() const { return placement_number_.load(std::memory_order_relaxed); }
  /// Copies the last sampled step to `to`, unless `to` already has that step. Returns whether it copied.
  bool latest(LiveStep& to) const;
  /// The share of each bucket's units that the device's cache holds now; empty if the device has no cache.
  Levels cached() const;

  // -- engine thread, or the loading thread before the engine starts --

  /// The placed model. Everything that it refers to must stay valid until detach().
  struct Run {
    // Placements in the device's plan; empty if there is no device.
    std::span<const LayerPlacement> placements = {};
    CachedNeurons cached_neurons = {};  // empty: there is no cache
    std::string why_nothing = {};
    MemoryByPlace memory = {};
  };
  void attach(const Run& run);
  void detach();

  /// Scope of one step of the model. Samples the step if there are viewers, the step has no prompt tokens,
  /// and the sampling interval has passed since the last sampled step.
  class StepScope {
   public:
    /// `live` may be null.
    StepScope(LiveActivity* live, const Batch& batch);
    ~StepScope();
    StepScope(const StepScope&) = delete;
    StepScope& operator=(const StepScope&) = delete;

   private:
    LiveActivity* live_;  // null: this step is not sampled
  };
  /// Whether the current step is sampled.
  bool samples_step() const { return samples_; }
  bool shows_experts() const { return shape_.experts; }
  /// The buffers for the active neurons of a sampled step. Null if the step is not sampled or if units are
  /// experts.
  const ActiveNeurons* found() const { return samples_ && !shape_.experts ? &found_ : nullptr; }
  /// Adds the active neurons of a layer in a sampled step; at most once per layer.
  void add(int layer, const ActiveNeurons& found);
  void add(int layer, const ExpertChoice& choice);

 private:
  bool may_sample(const Batch& batch);
  size_t bucket_of(size_t unit) const { return unit * n_buckets_ / static_cast<size_t>(shape_.n_units); }
  void finish_layer(int layer, int64_t n_tokens);
  void raise(std::span<uint8_t> levels, std::span<const uint64_t> bits) const;

  const Shape shape_;
  const std::chrono::milliseconds interval_;
  const Clock now_;
  const size_t n_buckets_, words_;
  std::vector<uint32_t> bucket_sizes_;  // [n_buckets]
  std::atomic<int> n_watchers_{0};
  std::atomic<uint64_t> placement_number_{0};

  // Engine thread.
  bool samples_ = false;
  // start of the last sampled step; empty until a step has been sampled
  std::optional<std::chrono::steady_clock::time_point> last_;
  std::vector<uint64_t> bits_;  // [max_tokens, words]
  std::vector<float> values_;   // [max_tokens, n_units]; written by layers, never read
  ActiveNeurons found_;
  std::vector<uint32_t> counts_;  // [n_buckets] for the current layer
  int64_t n_active_ = 0, n_seen_ = 0;
  LiveStep writing_;

  mutable Mutex mutex_;
  LiveStep shown_ HEARTH_GUARDED_BY(mutex_);
  LivePlacement placement_ HEARTH_GUARDED_BY(mutex_);
  CachedNeurons cached_neurons_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
