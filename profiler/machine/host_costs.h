// What a host's work takes besides its bytes and its arithmetic, and what a machine's profile does not tell: from here both
// the simulation and the plan of a mixture count.
//
// Plain values; any thread.
#pragma once

#include "kernels/cpu/thread_pool.h"

namespace hearth {

struct HostCosts {
  /// A fork and join of the thread pool, whose threads poll between operations, and the same if they have parked, after
  /// spin_s without work: then each has to be woken.
  double fork_s = 2e-6, woken_fork_s = 35e-6, spin_s = ThreadPool::kAwakeSeconds;
  double small_s = 1e-6;  // an operation on a token's activations
  /// Forks of a layer of experts (ExpertFfn): gates and ups, activations, downs, and the sum of a token's experts.
  int expert_forks = 4;

  /// What a layer takes besides its products: norms, rotations, keys and values, the sum; forks of its projections, attention and
  /// output, and of a dense FFN.
  double dense_layer_s() const { return 7 * small_s + 5 * fork_s; }
  double mixture_layer_s() const { return 6 * small_s + 4 * fork_s + experts_s(); }
  /// What a layer of experts takes beside a GPU before and between its products: the choice, the sum's zeros, the forks.
  double experts_s() const { return 2 * small_s + expert_forks * fork_s; }
};

}  // namespace hearth
