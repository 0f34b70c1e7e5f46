// Blocks of emulated CUDA: indices, barriers, shared memory, asynchronous copies, atomics, and the schedules
// that show races.
#include "kernels/cuda/runtime/gpu.h"
#include "tests/support/cudaemu_test/emulated.h"

namespace hearth::cudaemu {
namespace {

using cuda::gpu_kernel;
using cuda::gpu_launch;
using test::DeviceArray;
using test::TestStream;

__global__ void indices_kernel(int* out) {
  const int thread = static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
  const int block = static_cast<int>((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  const int n_threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  out[block * n_threads + thread] += block * n_threads + thread;
}

TEST_CASE("emulated: every thread of every block runs once, with its indices") {
  Emulated emulated;
  config().block_workers = GENERATE(1, 2);
  const dim3 grid(3, 2, 2), block(7, 3, 2);  // 42 threads: a warp and part of another
  const size_t n = 12 * 42;
  const TestStream stream;
  const DeviceArray<int> out(std::vector<int>(n, 0));
  REQUIRE(gpu_launch(no_work, gpu_kernel<indices_kernel>, grid, block, 0, stream, out.data()) == cudaSuccess);
  const std::vector<int> result = out.read(stream);
  for (size_t i = 0; i < n; ++i) REQUIRE(result[i] == static_cast<int>(i));
  CHECK(stats().launches == 1);
}

__global__ void reverse_kernel(int* values) {
  __shared__ int shared[96];
  const unsigned i = threadIdx.x;
  shared[i] = values[i];
  __syncthreads();
  values[i] = shared[95 - i];
}

/// Like the reversing kernel above, but without the barrier.
HEARTH_RACES __global__ void racing_reverse_kernel(int* values) {
  __shared__ int shared[96];
  const unsigned i = threadIdx.x;
  shared[i] = values[i];
  values[i] = shared[95 - i];
}

/// Correct in forward order only, because it reads what lower threads wrote.
HEARTH_RACES __global__ void racing_halves_kernel(int* values) {
  __shared__ int shared[96];
  const unsigned i = threadIdx.x;
  shared[i] = values[i];
  values[i] = shared[i / 2];
}

std::vector<int> run_on_squares(const cuda::GpuKernel<void(int*)>& kernel, Schedule schedule) {
  config().schedule = schedule;
  std::vector<int> squares(96);
  for (int i = 0; i < 96; ++i) squares[static_cast<size_t>(i)] = i * i;
  const TestStream stream;
  const DeviceArray<int> values(squares);
  REQUIRE(gpu_launch(no_work, kernel, 1, 96, 0, stream, values.data()) == cudaSuccess);
  return values.read(stream);
}

TEST_CASE("emulated: schedules do not affect a correct kernel, and expose a missing barrier") {
  Emulated emulated;
  std::vector<int> reversed(96), halves(96);
  for (int i = 0; i < 96; ++i) {
    reversed[static_cast<size_t>(i)] = (95 - i) * (95 - i);
    halves[static_cast<size_t>(i)] = (i / 2) * (i / 2);
  }
  for (const Schedule schedule : {Schedule::kForward, Schedule::kReverse, Schedule::kRandom}) {
    CHECK(run_on_squares(gpu_kernel<reverse_kernel>, schedule) == reversed);
    CHECK(run_on_squares(gpu_kernel<racing_reverse_kernel>, schedule) != reversed);
  }
  CHECK(run_on_squares(gpu_kernel<racing_halves_kernel>, Schedule::kForward) == halves);
  CHECK(run_on_squares(gpu_kernel<racing_halves_kernel>, Schedule::kReverse) != halves);
  CHECK(run_on_squares(gpu_kernel<racing_halves_kernel>, Schedule::kRandom) != halves);
}

TEST_CASE("emulated: a random schedule is the same for the same seed") {
  Emulated emulated;
  config().seed = 5;
  const std::vector<int> first = run_on_squares(gpu_kernel<racing_halves_kernel>, Schedule::kRandom);
  CHECK(run_on_squares(gpu_kernel<racing_halves_kernel>, Schedule::kRandom) == first);
  config().seed = 6;
  CHECK(run_on_squares(gpu_kernel<racing_halves_kernel>, Schedule::kRandom) != first);
}

/// Threads from n_staying on return before the barriers.
__global__ void early_exit_kernel(int n_staying, int* counts) {
  if (static_cast<int>(threadIdx.x) >= n_staying) return;
  const int odd = __syncthreads_count(threadIdx.x % 2);
  const int all = __syncthreads_and(threadIdx.x < 1000);
  const int any = __syncthreads_or(threadIdx.x == 70);
  counts[threadIdx.x] = odd * 100 + all * 10 + any;
}

TEST_CASE("emulated: barriers wait for the threads that have not returned, and count their predicates") {
  Emulated emulated;
  config().schedule = GENERATE(Schedule::kForward, Schedule::kReverse, Schedule::kRandom);
  const TestStream stream;
  for (const int n_staying : {1, 32, 33, 70, 71, 128}) {
    const DeviceArray<int> counts(std::vector<int>(128, -1));
    REQUIRE(gpu_launch(no_work, gpu_kernel<early_exit_kernel>, 1, 128, 0, stream, n_staying, counts.data()) ==
            cudaSuccess);
    const std::vector<int> result = counts.read(stream);
    const int want = n_staying / 2 * 100 + 10 + (n_staying > 70);
    for (int i = 0; i < 128; ++i) REQUIRE(result[static_cast<size_t>(i)] == (i < n_staying ? want : -1));
  }
}

__global__ void read_shared_kernel(int n, unsigned* found) {
  GPU_DYN_SHARED(unsigned, shared);
  const int i = static_cast<int>(threadIdx.x);
  if (i < n) found[blockIdx.x * static_cast<unsigned>(n) + threadIdx.x] = shared[i];
  __syncthreads();
  if (i < n) shared[i] = 7;
}

TEST_CASE("emulated: dynamic shared memory is NaN at the start of every block") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<unsigned> found(3 * 64);
  REQUIRE(gpu_launch(no_work, gpu_kernel<read_shared_kernel>, 3, 64, 64 * sizeof(unsigned), stream, 64,
                     found.data()) == cudaSuccess);
  CHECK(found.read(stream) == std::vector<unsigned>(3 * 64, 0xffffffffu));
}

TEST_CASE("emulated: launches beyond the device's limits are refused as on a real device") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<unsigned> found(1);
  const auto launch = [&](dim3 grid, dim3 block, size_t shared_bytes) {
    const cudaError_t error = gpu_launch(no_work, gpu_kernel<read_shared_kernel>, grid, block, shared_bytes,
                                         stream, 0, found.data());
    CHECK(cudaGetLastError() == error);
    return error;
  };
  CHECK(launch(1, 1024, 48 << 10) == cudaSuccess);
  CHECK(launch(1, 1025, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, 0, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch(0, 1, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1, 65536), 1, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, dim3(1, 1, 65), 0) == cudaErrorInvalidConfiguration);
  const auto kernel = reinterpret_cast<const void*>(read_shared_kernel);
  const int most = static_cast<int>(config().shared_optin_bytes);
  CHECK(launch(1, 1, (48 << 10) + 1) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1) ==
        cudaErrorInvalidValue);
  REQUIRE(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most) == cudaSuccess);
  cudaGetLastError();
  CHECK(launch(1, 1, config().shared_optin_bytes) == cudaSuccess);
}

TEST_CASE("emulated: a launch with a host pointer is refused") {
  Emulated emulated;
  const TestStream stream;
  unsigned on_host = 0;
  CHECK(gpu_launch(no_work, gpu_kernel<read_shared_kernel>, 1, 1, 0, stream, 0, &on_host) ==
        cudaErrorInvalidValue);
  CHECK(gpu_launch(no_work, gpu_kernel<read_shared_kernel>, 1, 1, 0, stream, 0, nullptr) == cudaSuccess);
}

/// Reads out[0, 128) before the wait and out[128, 256) after it.
__global__ void async_copy_kernel(const float* x, float* out) {
  __shared__ __align__(16) float shared[128];
  const unsigned i = threadIdx.x;
  shared[i] = -1;
  __syncthreads();
  if (i < 16) cuda::gpu_cp_async16(&shared[i * 4], x + i * 4);
  cuda::gpu_cp_async_commit();
  if (i < 16) cuda::gpu_cp_async16(&shared[64 + i * 4], x + 64 + i * 4);
  cuda::gpu_cp_async_commit();
  __syncthreads();
  out[i] = shared[i];
  __syncthreads();
  cuda::gpu_cp_async_wait<1>();
  __syncthreads();
  out[128 + i] = shared[i];
  __syncthreads();
  cuda::gpu_cp_async_wait<0>();
  __syncthreads();
  out[256 + i] = shared[i];
}

TEST_CASE("emulated: an asynchronous copy happens only when its group is waited for") {
  Emulated emulated;
  std::vector<float> x(128);
  for (size_t i = 0; i < 128; ++i) x[i] = static_cast<float>(i);
  const TestStream stream;
  const DeviceArray<float> on_device(x), out(384);
  REQUIRE(gpu_launch(no_work, gpu_kernel<async_copy_kernel>, 1, 128, 0, stream, on_device.data(),
                     out.data()) == cudaSuccess);
  const std::vector<float> result = out.read(stream);
  for (size_t i = 0; i < 128; ++i) {
    REQUIRE(result[i] == -1);
    REQUIRE(result[128 + i] == (i < 64 ? x[i] : -1));
    REQUIRE(result[256 + i] == x[i]);
  }
}

struct Counters {
  int sum = 0, difference = 0, least = 9999, greatest = -1, taken = 0, n_took = 0, last = -1;
  int bits_or = 0, bits_and = ~0, bits_xor = 0;
  unsigned wrapping = 0;
  float float_sum = 0;
  unsigned long long long_sum = 0;
};

__global__ void atomics_kernel(Counters* c) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&c->sum, i);
  atomicSub(&c->difference, 2);
  atomicMin(&c->least, i);
  atomicMax(&c->greatest, i);
  atomicOr(&c->bits_or, 1 << i % 20);
  atomicAnd(&c->bits_and, ~(1 << i % 20));
  atomicXor(&c->bits_xor, i);
  atomicInc(&c->wrapping, 9);
  atomicAdd(&c->float_sum, 0.5f);
  atomicAdd(&c->long_sum, 1ull << 32);
  if (atomicCAS(&c->taken, 0, 1) == 0) atomicAdd(&c->n_took, 1);
  atomicExch(&c->last, i);
}

TEST_CASE("emulated: atomic operations lose nothing, with blocks on several threads") {
  Emulated emulated;
  config().block_workers = GENERATE(1, 3);
  const TestStream stream;
  const DeviceArray<Counters> counters(std::vector<Counters>(1));
  REQUIRE(gpu_launch(no_work, gpu_kernel<atomics_kernel>, 10, 100, 0, stream, counters.data()) ==
          cudaSuccess);
  const Counters c = counters.read(stream)[0];
  CHECK(c.sum == 999 * 1000 / 2);
  CHECK(c.difference == -2000);
  CHECK(c.least == 0);
  CHECK(c.greatest == 999);
  CHECK(c.taken == 1);
  CHECK(c.n_took == 1);
  CHECK(c.last >= 0);
  CHECK(c.bits_or == (1 << 20) - 1);
  CHECK(c.bits_and == ~((1 << 20) - 1));
  CHECK(c.bits_xor == 0);  // the exclusive ors of 0 to 999 cancel in groups of four
  CHECK(c.wrapping == 0);  // a thousand steps around ten values
  CHECK(c.float_sum == 500);
  CHECK(c.long_sum == 1000ull << 32);
}

}  // namespace
}  // namespace hearth::cudaemu
