// Compares results of CUDA operations with the CPU's, bit by bit.
#pragma once

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/cpu/isa/isa.h"
#ifdef HEARTH_CUDA_EMULATED
#include "tests/support/cudaemu/control.h"
#endif

namespace hearth::test {

/// Returns the number of positions where the bits differ. All NaNs count as equal, because processors differ
/// in their bits.
inline int different(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return -1;
  int n = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    n += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 && !(std::isnan(a[i]) && std::isnan(b[i]));
  }
  return n;
}

/// Returns an instruction set that gives the same bits as CUDA: any except scalar code, which rounds products
/// before it adds them. Returns nullopt on machines without AVX2.
inline std::optional<Isa> fused_isa() {
  const Isa best = supported_isas().front();
  return best == Isa::kScalar ? std::nullopt : std::optional(best);
}

/// Calls body() with the emulator's threads in ascending, descending and random order, and with a GPU's
/// threads in their own order.
template <class Body>
void for_each_schedule(Body&& body) {
#ifdef HEARTH_CUDA_EMULATED
  const cudaemu::Schedule before = cudaemu::config().schedule;
  using cudaemu::Schedule;
  for (Schedule schedule : {Schedule::kForward, Schedule::kReverse, Schedule::kRandom}) {
    cudaemu::config().schedule = schedule;
    body();
  }
  cudaemu::config().schedule = before;
#else
  body();
#endif
}

}  // namespace hearth::test
