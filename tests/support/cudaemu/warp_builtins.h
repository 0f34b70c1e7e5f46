// Operations of a whole warp: __syncwarp, shuffles, votes, matches, reductions.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "tests/support/cudaemu/builtins.h"
#include "tests/support/cudaemu/device_thread.h"

namespace hearth::cudaemu {

/// Calls f(lane, value) for each lane that arrived, then leaves the warp operation.
template <class T, class F>
void for_each_lane(uint32_t mask, T value, WarpOp op, Location at, F&& f) {
  static_assert(sizeof(T) <= Arrival::kMaxBytes);
  const Arrival arrival = warp_arrive(mask, &value, sizeof value, op, at);
  for (int i = 0; i < 32; ++i) {
    if (!(arrival.lanes >> i & 1)) continue;
    T other;
    std::memcpy(&other, arrival.values[i], sizeof other);
    f(i, other);
  }
  warp_leave(arrival);
}

template <class T, class F>
T reduce(uint32_t mask, T value, Location at, F&& f) {
  bool first = true;
  T result{};
  for_each_lane(mask, value, WarpOp::kReduce, at, [&](int, T other) {
    result = first ? other : f(result, other);
    first = false;
  });
  return result;
}

}  // namespace hearth::cudaemu

inline void __syncwarp(unsigned mask = ~0u, HEARTH_CUDAEMU_HERE) {
  using namespace hearth::cudaemu;
  warp_leave(warp_arrive(mask, nullptr, 0, WarpOp::kSync, here));
}

// Width splits the warp into groups whose size is a power of two; a lane that would read beyond its group
// reads itself.
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, HEARTH_CUDAEMU_HERE) {
  return hearth::cudaemu::shuffle(mask, value,
                                  (hearth::cudaemu::lane() & ~(width - 1)) | (from & (width - 1)), here);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, HEARTH_CUDAEMU_HERE) {
  const int me = hearth::cudaemu::lane(), from = me - static_cast<int>(delta);
  return hearth::cudaemu::shuffle(mask, value, from < (me & ~(width - 1)) ? me : from, here);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, HEARTH_CUDAEMU_HERE) {
  const int me = hearth::cudaemu::lane(), from = me + static_cast<int>(delta);
  return hearth::cudaemu::shuffle(mask, value, from > (me | (width - 1)) ? me : from, here);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, HEARTH_CUDAEMU_HERE) {
  const int me = hearth::cudaemu::lane(), from = me ^ bits;
  return hearth::cudaemu::shuffle(mask, value, from > (me | (width - 1)) ? me : from, here);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, HEARTH_CUDAEMU_HERE) {
  unsigned votes = 0;
  hearth::cudaemu::for_each_lane(mask, predicate, hearth::cudaemu::WarpOp::kVote, here,
                                 [&](int i, int other) { votes |= unsigned{other != 0} << i; });
  return votes;
}
inline int __any_sync(unsigned mask, int predicate, HEARTH_CUDAEMU_HERE) {
  return __ballot_sync(mask, predicate, here) != 0;
}
inline int __all_sync(unsigned mask, int predicate, HEARTH_CUDAEMU_HERE) {
  return __ballot_sync(mask, !predicate, here) == 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, HEARTH_CUDAEMU_HERE) {
  unsigned same = 0;
  hearth::cudaemu::for_each_lane(mask, value, hearth::cudaemu::WarpOp::kMatch, here, [&](int i, T other) {
    same |= unsigned{std::memcmp(&other, &value, sizeof value) == 0} << i;
  });
  return same;
}

template <class T>
T __reduce_add_sync(unsigned mask, T value, HEARTH_CUDAEMU_HERE) {
  return hearth::cudaemu::reduce(mask, value, here, [](T a, T b) { return T(a + b); });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value, HEARTH_CUDAEMU_HERE) {
  return hearth::cudaemu::reduce(mask, value, here, [](T a, T b) { return b < a ? b : a; });
}
template <class T>
T __reduce_max_sync(unsigned mask, T value, HEARTH_CUDAEMU_HERE) {
  return hearth::cudaemu::reduce(mask, value, here, [](T a, T b) { return a < b ? b : a; });
}
