// Times of the host's work that do not depend on the bytes that it reads or the arithmetic that it does. A
// machine's profile does not contain them. The simulation and the plan of a mixture use them.
//
// Plain values; any thread.
#pragma once

#include "kernels/cpu/threads/thread_pool.h"

namespace hearth {

struct HostCosts {
  /// fork_s: a fork and join of the thread pool while its threads poll between operations. woken_fork_s: a
  /// fork and join after spin_s without work, when the threads have parked and each must be woken.
  double fork_s = 2e-6, woken_fork_s = 35e-6, spin_s = ThreadPool::kAwakeSeconds;
  double small_s = 1e-6;  // duration of an operation on a token's activations
  /// Number of forks in a layer of experts (ExpertFfn): one each for the gate and up projections, the
  /// activations, the down projections, and the sum of a token's experts.
  int expert_forks = 4;

  /// Seconds of a layer's work other than the arithmetic of its matrix products: norms, rotations, storing
  /// keys and values, sums, and the forks for projections, attention, output and dense FFN.
  double dense_layer_s() const { return 7 * small_s + 5 * fork_s; }
  double mixture_layer_s() const { return 6 * small_s + 4 * fork_s + experts_s(); }
  /// Seconds that the CPU takes before and between the matrix products of a layer of experts, if a GPU
  /// computes the rest of the layer: for choosing experts, for zeroing the sum, and for forks.
  double experts_s() const { return 2 * small_s + expert_forks * fork_s; }
};

}  // namespace hearth
