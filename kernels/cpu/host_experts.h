// Interface for computing the experts in host memory while a device computes the others: implemented by
// CpuBackend, and in simulations by an object that only accounts for their time.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/experts.h"

namespace hearth {

class HostExperts {
 public:
  virtual ~HostExperts() = default;

  /// Computes the pairs of `choice` whose expert the device does not hold: those with slots[pair] < 0. The
  /// output of pair p, FFN_{expert p}(x[token of p]), becomes row p of rows [n_tokens, n_used, d_model];
  /// other rows keep their contents. The bits are those that the device would give. Adds the computed pairs
  /// to counts. experts, x: see Backend::experts().
  virtual void missing_expert_rows(std::span<const Expert> experts, FfnActivation activation, const float* x,
                                   const ExpertChoice& choice, const int32_t* slots, float* rows,
                                   ExpertCounts& counts) = 0;
};

}  // namespace hearth
