// Converts bits to an ascending list, for the kernels that select neurons.
//
// The list index of a bit is the number of lower bits that are set. Every thread block itself counts all set
// bits below its own words, so that no thread block waits for another one. Counting is cheap, because the
// bits of a layer are a few KB in the L2 cache. If one thread block lists all bits, list_in_block() counts
// each bit only once.
#pragma once

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// Threads per thread block in find_bits() and for_each_listed().
constexpr int kListThreads = 256;
constexpr int kListWarps = kListThreads / 32;
/// The number of words that a thread block fills in find_bits(). A warp tests one word of one token at a
/// time. So with one token only half of the thread block's warps work, and with more tokens all of them. A
/// layer with 11008 neurons takes 43 thread blocks.
constexpr int kFoundWords = 4;

__device__ inline int count_bits(uint64_t bits) {
  return __popc(static_cast<unsigned>(bits)) + __popc(static_cast<unsigned>(bits >> 32));
}

/// Fills this thread block's words of `any`, which has ceil(n / 64) words. Bit i becomes 1 if test(t, i) is
/// true for at least one token t. For every token and word, one thread calls each(t, word, bits) with the
/// bits of this token.
template <class Test, class Each>
__device__ inline void find_bits(int n_tokens, int64_t n, uint64_t* any, Test&& test, Each&& each) {
  __shared__ unsigned found[2 * kFoundWords];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t n_words = (n + 63) / 64, first = int64_t{blockIdx.x} * kFoundWords;
  if (threadIdx.x < 2 * kFoundWords) found[threadIdx.x] = 0;
  __syncthreads();
  for (int pair = warp; pair < n_tokens * kFoundWords; pair += kListWarps) {
    const int t = pair / kFoundWords, k = pair % kFoundWords;
    const int64_t word = first + k;
    if (word >= n_words) continue;
    const int64_t i = word * 64 + lane;
    const unsigned low = __ballot_sync(~0u, i < n && test(t, i));
    const unsigned high = __ballot_sync(~0u, i + 32 < n && test(t, i + 32));
    if (lane != 0) continue;
    atomicOr(&found[2 * k], low);
    atomicOr(&found[2 * k + 1], high);
    each(t, word, low | uint64_t{high} << 32);
  }
  __syncthreads();
  const int64_t own = first + threadIdx.x;
  if (threadIdx.x < kFoundWords && own < n_words) {
    any[own] = found[2 * threadIdx.x] | uint64_t{found[2 * threadIdx.x + 1]} << 32;
  }
}
inline unsigned find_blocks(int64_t n) {
  constexpr int64_t kBits = 64 * kFoundWords;
  return static_cast<unsigned>((n + kBits - 1) / kBits);
}

/// Calls use(bit number, list index) for every set bit in this thread block's words. *count gets the length
/// of the list.
template <class Use>
__device__ inline void for_each_listed(const uint64_t* words, int64_t n_words, int32_t* count, Use&& use) {
  __shared__ int counted[kListWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = int64_t{blockIdx.x} * kListWarps, own = first + warp;
  int before = 0;
  for (int64_t w = threadIdx.x; w < first; w += kListThreads) before += count_bits(words[w]);
  for (int distance = 16; distance > 0; distance /= 2) before += __shfl_xor_sync(~0u, before, distance);
  if (lane == 0) counted[warp] = before;
  __syncthreads();
  if (own >= n_words) return;
  int begin = 0;
  for (int i = 0; i < kListWarps; ++i) begin += counted[i];
  for (int64_t w = first; w < own; ++w) begin += count_bits(words[w]);
  const uint64_t bits = words[own];
  for (int bit = lane; bit < 64; bit += 32) {
    if ((bits >> bit & 1) != 0) use(own * 64 + bit, begin + count_bits(bits & ((uint64_t{1} << bit) - 1)));
  }
  if (own == n_words - 1 && lane == 0) *count = begin + count_bits(bits);
}
inline unsigned list_blocks(int64_t n) {
  constexpr int64_t kBits = 64 * kListWarps;
  return static_cast<unsigned>((n + kBits - 1) / kBits);
}

/// Returns the sum of `value` over all threads of the thread block with a lower index than the caller.
/// `total` gets the sum over all kThreads threads.
template <int kThreads>
__device__ inline int sum_before(int value, int& total) {
  __shared__ int of_warps[kThreads / 32];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int sum = value;  // becomes the sum over the warp's lanes up to and including this one
  for (int distance = 1; distance < 32; distance *= 2) {
    const int lower = __shfl_up_sync(~0u, sum, static_cast<unsigned>(distance));
    if (lane >= distance) sum += lower;
  }
  __syncthreads();  // all threads must have read the last call's sums
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  int before = sum - value;
  total = 0;
  for (int i = 0; i < kThreads / 32; ++i) {
    if (i < warp) before += of_warps[i];
    total += of_warps[i];
  }
  return before;
}

/// Lists the set bits of words [n_words]. All kThreads threads of a thread block must call this.
template <int kThreads>
__device__ inline void list_in_block(const uint64_t* words, int64_t n_words, const DeviceList& list) {
  __shared__ int begins[kThreads];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  int listed = 0;
  for (int64_t first = 0; first < n_words; first += kThreads) {
    const int64_t own = first + thread;
    int total;
    const int before = sum_before<kThreads>(own < n_words ? count_bits(words[own]) : 0, total);
    begins[thread] = listed + before;
    listed += total;
    __syncthreads();
    // Neighboring lanes list neighboring bits.
    for (int i = thread / 32; i < kThreads && first + i < n_words; i += kThreads / 32) {
      const uint64_t bits = words[first + i];
      for (int bit = lane; bit < 64; bit += 32) {
        if ((bits >> bit & 1) == 0) continue;
        const int place = begins[i] + count_bits(bits & ((uint64_t{1} << bit) - 1));
        list.ids[place] = static_cast<int32_t>((first + i) * 64 + bit);
      }
    }
    __syncthreads();  // wait until all threads have read `begins`
  }
  if (thread == 0) *list.n = listed;
}

}  // namespace hearth::cuda
