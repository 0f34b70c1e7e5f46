// Single PTX instructions as functions: the emulator's bodies.
#pragma once

#include <cuda_fp16.h>

#include <cstring>

#include "tests/support/cudaemu/builtins.h"
#include "tests/support/cudaemu/device_thread.h"

/// mma.sync.m16n8k16, f16 with f32 sums: d += a * b. Who holds which element is the PTX ISA's table "Matrix
/// Fragments for mma.m16n8k16": a's rows go over lanes by fours, then over registers; b's columns likewise.
inline void gpu_mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             HEARTH_CUDAEMU_HERE) {
  using namespace hearth::cudaemu;
  const unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const Arrival arrival = warp_arrive(~0u, mine, sizeof mine, WarpOp::kMma, here);
  if (arrival.lanes != ~0u) die("mma.sync with lanes that have returned");
  const auto element = [&](int from, int reg, int part) {
    __half value;
    std::memcpy(&value, arrival.values[from] + reg * 4 + part * 2, 2);
    return __half2float(value);
  };
  const int group = lane() >> 2, in_group = lane() & 3;
  for (int i = 0; i < 4; ++i) {
    const int row = group + (i >> 1) * 8, column = in_group * 2 + (i & 1);
    for (int k = 0; k < 16; ++k)
      d[i] += element((row & 7) * 4 + (k & 7) / 2, (row >> 3) + 2 * (k >> 3), k & 1) *
              element(column * 4 + (k & 7) / 2, 4 + (k >> 3), k & 1);
  }
  warp_leave(arrival);
}

inline void gpu_cp_async16(void* shared, const void* global) {
  hearth::cudaemu::async_copy(shared, global, 16);
}
inline void gpu_cp_async_commit() { hearth::cudaemu::async_commit(); }
template <int N>
void gpu_cp_async_wait() {
  hearth::cudaemu::async_wait(N);
}
