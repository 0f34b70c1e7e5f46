// The FFN of a layer whose neurons two devices share: a device has some of them, hot ones for good and others
// in a cache; the CPU computes the rest, the cold ones, where they lie in host memory (PowerInfer: Song et
// al. 2024).
//
// One call is one layer of one step, in this order:
//   1. who is wanted      the set that the engine selected, by gates or by a predictor
//   2. who is where       the set is parted by which neurons the device has
//   3. both compute       the device its part, the CPU the other, at the same time
//   4. the sums merge     as integers (kernels/neuron_sums.h), so who computed what shows in no bit
// Who moves neurons between host memory and the cache stands beside it: kernels/neuron_traffic.h.
//
// kernels/cuda/sharing/cuda_hybrid_ffn.h implements it. Engine thread. docs/architecture.md walks a token and
// a weight through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/backend.h"
#include "kernels/neurons.h"

namespace hearth {

class NeuronTraffic;

/// A layer's neurons and where they are. A neuron that is on the device lies in a device row, a row of the
/// device's matrices. Rows [0, n_hot) hold their neurons for good; rows [n_hot, n_device_rows) are the cache,
/// whose neurons change while the engine runs. Biases are by neuron number on both. Made at load by the
/// engine's NeuronLayout, which owns it; what the device pointers point to is HybridFfn's to change.
struct HybridLayer {
  int layer = 0;                  // its number in the model
  FfnNeurons device;              // of device rows; gates are by neuron number if all_gates
  FfnNeurons host;                // by neuron number; the memory of those below first_on_host was given back
  int64_t first_on_host = 0;      // all below are hot
  uint64_t* resident = nullptr;   // device memory: [words] bits of the neurons that have a device row
  int32_t* device_row = nullptr;  // device memory: [n_neurons], of meaning for those
  int64_t n_hot = 0, n_device_rows = 0;
  bool all_gates = false;    // the device's gate matrix has every neuron's row, by number
  bool host_pinned = false;  // the host's rows were given to HybridFfn::pin(), which granted it

  bool has_cache() const { return n_device_rows > n_hot; }
};

/// What one layer of one step works on. Pointers are device memory.
struct HybridCall {
  const float* x = nullptr;  // [n_tokens, d_model]
  int n_tokens = 0;
  NeuronSetId wanted;  // of the device's backend, filled by select_neurons()
  /// What the next hybrid layer will probably want, for who moves neurons; nullopt: nobody knows.
  std::optional<NeuronSetId> wanted_next;
  /// [n_tokens, n_neurons] by number: given if and only if the layer has all_gates.
  const float* gates = nullptr;
  float* out = nullptr;  // [n_tokens, d_model]
};

class HybridFfn {
 public:
  virtual ~HybridFfn() = default;

  /// Lets the device read this host memory while both work, without copying it first (page-locked, mapped).
  /// Returns whether the system grants it; if not, the device gets it by way of pinned memory of its own. At
  /// load only; for as long as this lives, which the memory must outlive.
  virtual bool pin(const std::byte* host, size_t bytes) = 0;

  /// Who tells from now on which neurons are in the cache, and learns what layers wanted; null: nobody, and
  /// the cache does not change. It outlives this or is taken back. Between steps.
  virtual void set_traffic(NeuronTraffic* traffic) = 0;

  /// call.out += the FFN of call.x, where each token's neurons are those it wants: the same sums, bit for
  /// bit, as Backend::ffn_neurons() would give if the device had all neurons. Counts are complete after the
  /// backend's finish(). Throws what the device's failure throws.
  virtual void run(const HybridLayer& layer, const HybridCall& call, NeuronCounts& counts) = 0;
};

}  // namespace hearth
