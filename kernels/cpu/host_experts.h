// HostExperts: computes experts on the host while a device computes the other experts. CpuBackend implements
// it. Simulations use an implementation that only accounts for the time.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/experts.h"

namespace hearth {

class HostExperts {
 public:
  virtual ~HostExperts() = default;

  /// Computes the pairs of `choice` whose expert has no slot on the device, that is, slots[pair] < 0. Writes
  /// the output of pair p, FFN_{expert of p}(x[token of p]), to row p of `rows` [n_tokens, n_used, d_model],
  /// with the same bits that the device would give. Other rows keep their contents. Adds the computed pairs
  /// to counts. experts, x: see Backend::experts().
  virtual void missing_expert_rows(std::span<const Expert> experts, FfnActivation activation, const float* x,
                                   const ExpertChoice& choice, const int32_t* slots, float* rows,
                                   ExpertCounts& counts) = 0;
};

}  // namespace hearth
