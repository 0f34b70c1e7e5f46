// Implements for the emulator the functions of kernels/cuda/runtime/gpu.h, which documents them. Most are
// single PTX instructions on a device.
#pragma once

#include <atomic>

#include <cstdint>
#include <cstring>

#include "tests/support/cudaemu/builtins.h"
#include "tests/support/cudaemu/device_thread.h"
#include "tests/support/cudaemu/math_builtins.h"
#include "tests/support/cudaemu/warp_builtins.h"

namespace hearth::cudaemu {
/// See simulation.h.
void note_release(const void* word);
}  // namespace hearth::cudaemu

namespace hearth::cuda {

template <class T>
T* gpu_aligned(void* p, HEARTH_CUDAEMU_HERE) {
  cudaemu::check_aligned(p, alignof(T), here);
  return static_cast<T*>(p);
}
template <class T>
const T* gpu_aligned(const void* p, HEARTH_CUDAEMU_HERE) {
  cudaemu::check_aligned(p, alignof(T), here);
  return static_cast<const T*>(p);
}

inline void gpu_cp_async16(void* shared, const void* global, HEARTH_CUDAEMU_HERE) {
  cudaemu::check_aligned(shared, 16, here);
  cudaemu::check_aligned(global, 16, here);
  cudaemu::async_copy(shared, global, 16);
}
inline void gpu_cp_async_part(void* shared, const void* global, int n_bytes, HEARTH_CUDAEMU_HERE) {
  cudaemu::check_aligned(shared, 16, here);
  cudaemu::check_aligned(global, 16, here);
  if (n_bytes < 1 || n_bytes > 16) cudaemu::die("an asynchronous copy of fewer than 1 or more than 16 bytes");
  cudaemu::async_copy(shared, global, static_cast<size_t>(n_bytes));
}
inline void gpu_cp_async_commit() { cudaemu::async_commit(); }
template <int N>
void gpu_cp_async_wait() {
  cudaemu::async_wait(N);
}

/// The values of all lanes of a warp, for an instruction in which every lane must take part. The caller must
/// then call warp_leave.
template <class T>
cudaemu::Arrival whole_warp_arrives(const T& value, cudaemu::Location here) {
  const cudaemu::Arrival arrival =
      cudaemu::warp_arrive(~0u, &value, sizeof value, cudaemu::WarpOp::kMatrix, here);
  if (arrival.lanes != ~0u) cudaemu::die("a matrix instruction without some lanes of the warp");
  return arrival;
}

inline void gpu_load_matrices(unsigned (&to)[4], const void* row, HEARTH_CUDAEMU_HERE) {
  cudaemu::check_aligned(row, 16, here);
  const cudaemu::Arrival arrival = whole_warp_arrives(row, here);
  const int lane = cudaemu::lane();
  for (int m = 0; m < 4; ++m) {
    const unsigned char* from;
    std::memcpy(&from, arrival.values[8 * m + lane / 4], sizeof from);
    to[m] = reinterpret_cast<const unsigned*>(from)[lane % 4];
  }
  cudaemu::warp_leave(arrival);
}

/// Multiplies a [16, 16 kHalves] by b [16 kHalves, 8], both of bytes, and adds c. words: the calling lane's
/// words of a, then of b, in the device's layout.
template <int kHalves>
void multiply_bytes(int (&d)[4], const unsigned (&words)[3 * kHalves], int c, cudaemu::Location here) {
  const cudaemu::Arrival arrival = whole_warp_arrives(words, here);
  const auto word = [&](int lane, int i) {
    int w;
    std::memcpy(&w, arrival.values[lane] + 4 * i, sizeof w);
    return w;
  };
  const int g = cudaemu::lane() / 4, q = cudaemu::lane() % 4;
  for (int& sum : d) sum = c;
  for (int k = 0; k < 4 * kHalves; ++k) {
    const int half = k / 4, row = 4 * g + k % 4, column = 8 * q + k % 4;
    const int b[2] = {word(column, 2 * kHalves + half), word(column + 4, 2 * kHalves + half)};
    for (int i = 0; i < 4; ++i) d[i] = __dp4a(word(row, 2 * half + i / 2), b[i % 2], d[i]);
  }
  cudaemu::warp_leave(arrival);
}

inline void gpu_multiply_16(int (&d)[4], unsigned a0, unsigned a1, unsigned b, int c, HEARTH_CUDAEMU_HERE) {
  multiply_bytes<1>(d, {a0, a1, b}, c, here);
}
inline void gpu_multiply_32(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int c,
                            HEARTH_CUDAEMU_HERE) {
  multiply_bytes<2>(d, {a[0], a[1], a[2], a[3], b0, b1}, c, here);
}

inline unsigned gpu_warp_max(unsigned value, HEARTH_CUDAEMU_HERE) {
  return __reduce_max_sync(~0u, value, here);
}
inline unsigned gpu_warp_min(unsigned value, HEARTH_CUDAEMU_HERE) {
  return __reduce_min_sync(~0u, value, here);
}

inline unsigned gpu_arrive(unsigned* count) {
  return std::atomic_ref(*count).fetch_add(1, std::memory_order_acq_rel);
}
inline void gpu_store_release_system(unsigned* to, unsigned value) {
  cudaemu::note_release(to);
  std::atomic_ref(*to).store(value, std::memory_order_release);
}

}  // namespace hearth::cuda
