// The FFN of a layer whose neurons a device and the CPU share. The device computes the hot neurons, which it
// holds permanently, and the neurons in its neuron cache. The CPU computes the rest, the cold neurons, from
// host memory (PowerInfer: Song et al. 2024).
//
// One call is one layer of one step, in this order:
//   1. wanted neurons    the set that the engine selected, by gates or by a predictor
//   2. residency         the set is split by which neurons have a device row
//   3. both compute      the device and the CPU compute their parts at the same time
//   4. sums merge        as integers (kernels/neuron_sums.h), so the result does not depend on the split
// Through the interface in kernels/row_prefetcher.h, a prefetcher moves neurons between host memory and the
// neuron cache.
//
// kernels/cuda/hybrid/cuda_hybrid_ffn.h implements it. Engine thread. docs/architecture.md follows a token
// and a weight through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "kernels/backend.h"
#include "kernels/neurons.h"

namespace hearth {

class RowPrefetcher;

/// A layer's neurons and where they are. A neuron on the device has a device row: a row of the device's
/// matrices. Device rows [0, n_hot) never change their neurons. Device rows [n_hot, n_device_rows) are the
/// neuron cache, whose neurons change while the engine runs. Biases are indexed by neuron number, on the
/// device and on the host. The engine's NeuronLayout creates this struct at load and owns the memory; only
/// HybridFfn writes to the memory behind the device pointers.
struct HybridLayer {
  int layer = 0;                  // its number in the model
  int place = 0;                  // its index among the hybrid layers
  FfnNeurons device;              // indexed by device row, but gates by neuron number if all_gates
  FfnNeurons host;                // indexed by neuron number; the rows below first_on_host were freed
  int64_t first_on_host = 0;      // all neurons below it are hot
  uint64_t* resident = nullptr;   // device memory, [words]: bits of the neurons that have a device row
  int32_t* device_row = nullptr;  // device memory, [n_neurons]; valid only for neurons with a device row
  int64_t n_hot = 0, n_device_rows = 0;
  bool all_gates = false;    // the device's gate matrix has the rows of all neurons, by neuron number
  bool host_pinned = false;  // HybridFfn::pin() has pinned the host's rows

  bool has_cache() const { return n_device_rows > n_hot; }
};

/// The neurons that a later hybrid layer (`layer`) will probably want. The device predicts them while the CPU
/// computes its share of the current layer. They are reported to the prefetcher when the device has begun the
/// next hybrid layer.
struct Proposal {
  int layer = 0;
  NeuronSetId set;  // of the device's backend
  /// Enqueues the work that predicts the neurons and writes them to `set`. Called only if the CPU computes a
  /// share of the layer.
  std::function<void()> fill;
};

/// The arguments of HybridFfn::run() for one layer of one step. Pointers are device memory.
struct HybridCall {
  const float* x = nullptr;  // [n_tokens, d_model]
  int n_tokens = 0;
  NeuronSetId wanted;  // of the device's backend, filled by select_neurons()
  /// The neurons to report to the prefetcher for a later hybrid layer; nullopt if there is no prediction.
  std::optional<Proposal> proposal = {};
  /// [n_tokens, n_neurons] products with the gate rows, by neuron number, if the layer has all_gates; else
  /// null.
  const float* gates = nullptr;
  float* out = nullptr;  // [n_tokens, d_model]
  /// If set, the device and the CPU drop neurons whose contribution, |value| * FfnNeurons::down_sizes, is
  /// below this limit, before they read down rows. With a limit, `gates` must be null. NeuronCounts::proposed
  /// then counts only the neurons that were not dropped, and gate and up rows are not counted.
  std::optional<float> least_contribution = {};
};

class HybridFfn {
 public:
  virtual ~HybridFfn() = default;

  /// Lets the device read this host memory without copying it first (page-locked and mapped). Returns false
  /// if the system refuses; the bytes are then copied through the device's own pinned memory. Called at load
  /// only. The memory stays pinned as long as this object lives, and must outlive it.
  virtual bool pin(const std::byte* host, size_t bytes) = 0;

  /// Sets the prefetcher, which from now on decides which neurons are in the cache, and gets reports of the
  /// neurons that each layer wanted. With null, the cache does not change. The prefetcher must outlive this
  /// object or be replaced by null first. Called between steps.
  virtual void set_prefetcher(RowPrefetcher* prefetcher) = 0;

  /// Adds the FFN of call.x to call.out, computed with the neurons that each token wants. The sums have the
  /// same bits as from Backend::ffn_neurons() on a device with all neurons. Counts are complete after the
  /// backend's finish(). Throws the device's error if the device fails.
  virtual void run(const HybridLayer& layer, const HybridCall& call, NeuronCounts& counts) = 0;
};

}  // namespace hearth
