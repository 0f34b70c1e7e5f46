// Costs of a host's work besides its bytes and its arithmetic, which a machine's profile does not have. The
// simulation and the plan of a mixture both use them.
//
// Plain values; any thread.
#pragma once

#include "kernels/cpu/threads/thread_pool.h"

namespace hearth {

struct HostCosts {
  /// fork_s: a fork and join of the thread pool, whose threads poll between operations. woken_fork_s: a fork
  /// and join after spin_s without work, when the threads have parked and each has to be woken.
  double fork_s = 2e-6, woken_fork_s = 35e-6, spin_s = ThreadPool::kAwakeSeconds;
  double small_s = 1e-6;  // an operation on a token's activations
  /// Forks in a layer of experts (ExpertFfn): gates and ups, activations, downs, the sum of a token's
  /// experts.
  int expert_forks = 4;

  /// Seconds of a layer besides its products: norms, rotations, keys and values, the sum; forks of its
  /// projections, attention and output, and of a dense FFN.
  double dense_layer_s() const { return 7 * small_s + 5 * fork_s; }
  double mixture_layer_s() const { return 6 * small_s + 4 * fork_s + experts_s(); }
  /// Seconds that the CPU takes before and between the products of a layer of experts beside a GPU: for the
  /// choice of experts, for zeroing the sum, and for forks.
  double experts_s() const { return 2 * small_s + expert_forks * fork_s; }
};

}  // namespace hearth
