// Exchanges the experts that a device holds while tokens are generated, so that it holds those that the
// current texts use.
//
// ExpertCache decides (engine/residency/expert_cache.h), and HybridExperts copies (kernels/hybrid_experts.h).
// This class connects them. It passes on which experts the tokens of a layer choose, and starts the copies of
// the exchanges that follow at once, so that most of them have arrived when the step ends. It completes the
// exchanges between steps. Steps never wait for copies. Which experts the device holds changes no token
// (kernels/hybrid_experts.h), so exchanges may depend on time.
//
// Only steps without prompt tokens count, because a step of a prompt uses nearly all experts. ModelRuntime
// owns the exchanger. Engine thread, except for resident().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "engine/neurons/expert_slabs.h"
#include "engine/residency/expert_cache.h"
#include "engine/step/batch.h"
#include "engine/step/model_figures.h"
#include "kernels/base/mutex.h"
#include "kernels/base/virtual_time.h"
#include "kernels/hybrid_experts.h"

namespace hearth {

class ExpertExchanger {
 public:
  /// A layer in which the device holds some experts but not all.
  struct Layer {
    int layer = 0;
    std::span<const Expert> host;  // all experts, in page-locked host memory
    ExpertSlabs* slabs = nullptr;
    std::vector<double> use;  // see ExpertCache::Layer
  };
  /// ram_bytes_per_s: the rate at which the CPU reads missing experts; 0: unknown. Everything that the
  /// arguments refer to must outlive the exchanger. REQUIRES: can_exchange().
  ExpertExchanger(const std::vector<Layer>& layers, HybridExperts& device, double ram_bytes_per_s);

  /// Whether the device can exchange experts of these layers, of which there is at least one.
  static bool can_exchange(std::span<const Layer> layers, const HybridExperts& device);

  // -- for each step, in this order --

  void begin_step(const Batch& batch);
  /// Reports the experts that the tokens of a layer chose. Call it after HybridExperts::end() of the layer.
  /// Ignores layers that are not the exchanger's.
  void use(int layer, const ExpertChoice& choice);
  void end_step();

  ExchangeTotals totals() const { return totals_; }

  /// Sets the bits of the layer's experts that the device holds now. Returns false if the layer is not the
  /// exchanger's. Any thread.
  bool resident(int layer, std::span<uint64_t> bits) const;

 private:
  void complete(int n);
  void set_margin();

  std::vector<Layer> layers_;
  std::map<int, int> index_;  // of each layer's number in layers_
  HybridExperts& device_;
  ExpertCache cache_;
  CopyAllowance allowance_;
  int most_changes_;
  // Indices in layers_. In a step, only layers from first_ on begin exchanges. If a step has more exchanges
  // than may begin, next_first_ is the first layer that could begin none, and the next step starts there.
  int first_ = 0, next_first_ = 0;
  bool counts_step_ = false;
  const double use_seconds_;              // in which the CPU reads a missing expert; 0: unknown
  double spent_seconds_ = 0;              // by this thread on all exchanges
  HostClock::time_point begin_;           // of the step
  std::deque<ExpertExchange> under_way_;  // exchanges whose experts are being copied, in their order
  std::vector<ExpertExchange> begun_;     // scratch of use()
  ExchangeTotals totals_;

  mutable Mutex mutex_;                                                    // see resident()
  std::vector<std::vector<uint64_t>> resident_ HEARTH_GUARDED_BY(mutex_);  // [layers_] bits of experts
};

/// Returns the known uses of a layer's experts (ExpertCache::Layer::use); empty if they are unknown.
using KnownExpertUse = std::function<std::vector<double>(int layer)>;

/// Returns all experts of a layer in host memory. Called only for layers of which a device holds experts.
using HostExpertsOf = std::function<std::span<const Expert>(int layer)>;

/// Returns the layers whose experts a device may exchange: those in which it holds some experts but not all.
/// slabs: [n_layers] what the device holds; empty if it holds no experts. use: null if no uses are known. The
/// result refers to `slabs` and to the experts in host memory.
std::vector<ExpertExchanger::Layer> exchangeable_layers(const HostExpertsOf& host,
                                                        std::span<ExpertSlabs> slabs,
                                                        const KnownExpertUse& use);

}  // namespace hearth
