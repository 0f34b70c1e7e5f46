// cudaemu.h - run CUDA kernels on the CPU: one fiber per CUDA thread, one worker thread per stream.
#pragma once
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#undef __shared__
#define __shared__ static thread_local  // per OS worker == per running block; never migrates
#undef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define GPU_DYN_SHARED(T, name) T* name = static_cast<T*>(cudaemu::dyn_smem())
#define GPU_UNROLL

extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace cudaemu {
struct Config {  // all settable from tests; defaults from CUDAEMU_* environment variables
  size_t vram = size_t(8) << 30;
  int sm = 80, smem_optin = 163 << 10;
  int schedule = 0;  // 0 forward, 1 reverse, 2 random (seed)
  unsigned seed = 1;
  int block_workers = 1;  // OS threads that share one grid's blocks
  int jitter_us = 0;      // random delay before each stream operation
  bool guard = false;     // device memory PROT_NONE while no device operation runs
};
struct Stats {
  uint64_t launches, graph_launches, h2d_bytes, d2h_bytes, pageable_async, switches;
  size_t vram_used, vram_peak;
};
Config& config();
Stats stats();
void reset_stats();
void fail_next(const char* api, int after, cudaError_t err);  // fault injection
[[noreturn]] void die(const char* fmt, ...);

struct Loc {  // std::source_location needs clang >= 16
  const char* f = "";
  unsigned l = 0;
  static constexpr Loc current(const char* f = __builtin_FILE(), unsigned l = __builtin_LINE()) {
    return {f, l};
  }
};
struct Arrival {
  uint32_t lanes;
  unsigned char (*val)[32];
  void* group;
};
void* dyn_smem();
int lane();
void block_barrier(Loc);
int block_barrier_reduce(int pred, int op, Loc);  // op 0 count, 1 and, 2 or
Arrival warp_arrive(uint32_t mask, const void* v, size_t n, int kind, Loc);
void warp_leave(const Arrival&);
void async_copy(void* dst, const void* src, size_t n);
void async_commit();
void async_wait(int keep);
bool check_pointer(const void* p, const char* kernel);
struct Launch {
  dim3 grid, block;
  size_t smem;
  const void* func;
};
cudaError_t enqueue_kernel(const Launch&, std::function<void()>, cudaStream_t);

template <class T>
T take(const Arrival& a, int src) {
  T r;
  if (src >= 0 && (a.lanes >> src & 1))
    memcpy(&r, a.val[src], sizeof r);
  else
    memset(&r, 0xff, sizeof r);  // reading an inactive lane is undefined: poison
  warp_leave(a);
  return r;
}
template <class T>
T shfl(uint32_t m, T v, int src, Loc l) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32);
  return take<T>(warp_arrive(m, &v, sizeof v, 1, l), src);
}
template <class P>
bool check_arg(const P& p) {
  if constexpr (std::is_pointer_v<P>)
    return check_pointer((const void*)p, "kernel");
  else
    return true;
}
template <class T, class U, class F>
T rmw(T* p, U v, F f) {
  std::atomic_ref<T> r(*p);
  T old = r.load(std::memory_order_relaxed);
  while (!r.compare_exchange_weak(old, f(old, T(v)), std::memory_order_relaxed)) {
  }
  return old;
}
}  // namespace cudaemu

template <class... P, class... A>
cudaError_t gpu_launch(void (*k)(P...), dim3 g, dim3 b, size_t smem, cudaStream_t s, A&&... a) {
  std::tuple<P...> t{static_cast<P>(std::forward<A>(a))...};
  if (!std::apply([](auto&... p) { return (cudaemu::check_arg(p) && ...); }, t)) return cudaErrorInvalidValue;
  return cudaemu::enqueue_kernel(
      {g, b, smem, (const void*)k}, [k, t] { std::apply(k, t); }, s);
}

// ---- device builtins ---------------------------------------------------------------------------
#define EMU_LOC cudaemu::Loc loc = cudaemu::Loc::current()
#define EMU_FN inline __attribute__((unused))
EMU_FN void __syncthreads(EMU_LOC) { cudaemu::block_barrier(loc); }
EMU_FN int __syncthreads_count(int p, EMU_LOC) { return cudaemu::block_barrier_reduce(p, 0, loc); }
EMU_FN int __syncthreads_and(int p, EMU_LOC) { return cudaemu::block_barrier_reduce(p, 1, loc); }
EMU_FN int __syncthreads_or(int p, EMU_LOC) { return cudaemu::block_barrier_reduce(p, 2, loc); }
EMU_FN void __syncwarp(unsigned m = ~0u, EMU_LOC) {
  cudaemu::warp_leave(cudaemu::warp_arrive(m, nullptr, 0, 0, loc));
}
EMU_FN void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
EMU_FN void __threadfence_block() { __threadfence(); }
EMU_FN void __threadfence_system() { __threadfence(); }
EMU_FN void __trap() { cudaemu::die("__trap()"); }
template <class T>
T __shfl_sync(unsigned m, T v, int s, int w = 32, EMU_LOC) {
  return cudaemu::shfl(m, v, (cudaemu::lane() & ~(w - 1)) | (s & (w - 1)), loc);
}
template <class T>
T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32, EMU_LOC) {
  int l = cudaemu::lane(), s = l - int(d);
  return cudaemu::shfl(m, v, s < (l & ~(w - 1)) ? l : s, loc);
}
template <class T>
T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32, EMU_LOC) {
  int l = cudaemu::lane(), s = l + int(d);
  return cudaemu::shfl(m, v, s > (l | (w - 1)) ? l : s, loc);
}
template <class T>
T __shfl_xor_sync(unsigned m, T v, int x, int w = 32, EMU_LOC) {
  int l = cudaemu::lane(), s = l ^ x;
  return cudaemu::shfl(m, v, s > (l | (w - 1)) ? l : s, loc);
}
EMU_FN unsigned __ballot_sync(unsigned m, int p, EMU_LOC) {
  auto a = cudaemu::warp_arrive(m, &p, sizeof p, 2, loc);
  unsigned r = 0;
  for (int i = 0; i < 32; i++)
    if (int v; a.lanes >> i & 1) memcpy(&v, a.val[i], 4), r |= unsigned(v != 0) << i;
  cudaemu::warp_leave(a);
  return r;
}
EMU_FN int __any_sync(unsigned m, int p, EMU_LOC) { return __ballot_sync(m, p, loc) != 0; }
EMU_FN int __all_sync(unsigned m, int p, EMU_LOC) { return __ballot_sync(m, !p, loc) == 0; }
template <class T>
unsigned __match_any_sync(unsigned m, T v, EMU_LOC) {
  auto a = cudaemu::warp_arrive(m, &v, sizeof v, 3, loc);
  unsigned r = 0;
  for (int i = 0; i < 32; i++)
    if (a.lanes >> i & 1) r |= unsigned(!memcmp(a.val[i], &v, sizeof v)) << i;
  cudaemu::warp_leave(a);
  return r;
}
template <class T>
T __reduce_add_sync(unsigned m, T v, EMU_LOC) {
  auto a = cudaemu::warp_arrive(m, &v, sizeof v, 4, loc);
  T r = 0;
  for (int i = 0; i < 32; i++)
    if (T t; a.lanes >> i & 1) memcpy(&t, a.val[i], sizeof t), r += t;
  cudaemu::warp_leave(a);
  return r;
}
template <class T, class U>
T atomicAdd(T* p, U v) {
  if constexpr (std::is_arithmetic_v<T>)
    return std::atomic_ref<T>(*p).fetch_add(T(v), std::memory_order_relaxed);
  else {
    using B = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;  // half, half2, bf16, bf162
    return std::bit_cast<T>(
        cudaemu::rmw((B*)p, B(0), [&](B o, B) { return std::bit_cast<B>(T(std::bit_cast<T>(o) + T(v))); }));
  }
}
template <class T, class U>
T atomicSub(T* p, U v) {
  return cudaemu::rmw(p, v, [](T a, T b) { return T(a - b); });
}
template <class T, class U>
T atomicMax(T* p, U v) {
  return cudaemu::rmw(p, v, [](T a, T b) { return a > b ? a : b; });
}
template <class T, class U>
T atomicMin(T* p, U v) {
  return cudaemu::rmw(p, v, [](T a, T b) { return a < b ? a : b; });
}
template <class T, class U>
T atomicOr(T* p, U v) {
  return cudaemu::rmw(p, v, [](T a, T b) { return T(a | b); });
}
template <class T, class U>
T atomicAnd(T* p, U v) {
  return cudaemu::rmw(p, v, [](T a, T b) { return T(a & b); });
}
template <class T, class U>
T atomicExch(T* p, U v) {
  return std::atomic_ref<T>(*p).exchange(T(v));
}
template <class T, class U, class V>
T atomicCAS(T* p, U c, V v) {
  T e = T(c);
  std::atomic_ref<T>(*p).compare_exchange_strong(e, T(v));
  return e;
}

EMU_FN int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += int8_t(a >> 8 * i) * int8_t(b >> 8 * i);
  return c;
}
EMU_FN unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; i++) c += uint8_t(a >> 8 * i) * uint8_t(b >> 8 * i);
  return c;
}
EMU_FN unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  uint64_t v = uint64_t(y) << 32 | x;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    unsigned c = s >> 4 * i & 15, b = v >> 8 * (c & 7) & 255;
    r |= (c & 8 ? (b & 128 ? 255 : 0) : b) << 8 * i;
  }
  return r;
}
EMU_FN int __popc(unsigned v) { return std::popcount(v); }
EMU_FN int __clz(int v) { return std::countl_zero(unsigned(v)); }
EMU_FN int __ffs(int v) { return __builtin_ffs(v); }
EMU_FN int __float_as_int(float f) { return std::bit_cast<int>(f); }
EMU_FN float __int_as_float(int i) { return std::bit_cast<float>(i); }
EMU_FN unsigned __float_as_uint(float f) { return std::bit_cast<unsigned>(f); }
EMU_FN float __uint_as_float(unsigned i) { return std::bit_cast<float>(i); }
// Compiled with -ffp-contract=off, these round once each, as on the device.
EMU_FN float __fadd_rn(float a, float b) { return a + b; }
EMU_FN float __fsub_rn(float a, float b) { return a - b; }
EMU_FN float __fmul_rn(float a, float b) { return a * b; }
EMU_FN float __fdiv_rn(float a, float b) { return a / b; }
EMU_FN float __fsqrt_rn(float a) { return sqrtf(a); }
EMU_FN float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
EMU_FN float __int2float_rn(int v) { return static_cast<float>(v); }
EMU_FN float __ll2float_rn(long long v) { return static_cast<float>(v); }
EMU_FN long long __float2ll_rn(float f) {
  if (f != f) return static_cast<long long>(0x8000000000000000ull);
  if (f >= 9223372036854775808.0f) return 0x7fffffffffffffffll;
  if (f < -9223372036854775808.0f) return static_cast<long long>(0x8000000000000000ull);
  return llrintf(f);
}
EMU_FN int __float2int_rn(float f) { return int(nearbyintf(f)); }
EMU_FN float rsqrtf(float x) { return 1.0f / sqrtf(x); }
EMU_FN float __fdividef(float a, float b) { return a / b; }
EMU_FN float __frcp_rn(float a) { return 1.0f / a; }
EMU_FN float __saturatef(float a) { return fminf(fmaxf(a, 0.f), 1.f); }
#define __expf(x) expf(x)  // glibc declares __expf & co. but does not export them
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, T v) {
  *p = v;
}
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
// half functions that NVIDIA's cuda_fp16.h leaves out for host compilers (the rest comes from that header)
EMU_FN __half __hfma(__half a, __half b, __half c) {
  return __double2half(double(__half2float(a)) * __half2float(b) + __half2float(c));
}
EMU_FN __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
EMU_FN __half hexp(__half a) { return __float2half(expf(__half2float(a))); }

// ---- PTX wrappers (gpu.h has the inline-asm twins) ------------------------------------------------
EMU_FN void gpu_mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], EMU_LOC) {
  unsigned v[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  auto x = cudaemu::warp_arrive(~0u, v, sizeof v, 5, loc);
  if (x.lanes != ~0u) cudaemu::die("mma.sync with inactive lanes");
  auto h = [&](int l, int reg, int k) {
    __half t;
    memcpy(&t, x.val[l] + reg * 4 + k * 2, 2);
    return __half2float(t);
  };
  int l = cudaemu::lane(), g = l >> 2, q = l & 3;
  for (int i = 0; i < 4; i++) {
    int row = g + (i >> 1) * 8, col = q * 2 + (i & 1);
    for (int k = 0; k < 16;
         k++)  // A: lane=(row%8)*4+(k%8)/2, reg=(row/8)+2*(k/8); B: lane=col*4+(k%8)/2, reg=k/8
      d[i] += h((row & 7) * 4 + (k & 7) / 2, (row >> 3) + 2 * (k >> 3), k & 1) *
              h(col * 4 + (k & 7) / 2, 4 + (k >> 3), k & 1);
  }
  cudaemu::warp_leave(x);
}
EMU_FN void gpu_cp_async16(void* s, const void* g) {
  cudaemu::async_copy(s, g, 16);
}  // performed only at the wait
EMU_FN void gpu_cp_async_commit() { cudaemu::async_commit(); }
template <int N>
void gpu_cp_async_wait() {
  cudaemu::async_wait(N);
}
