// Kernels with one deliberate mistake each. `cudaemu_mistakes NAME` launches one kernel, which the emulator
// or a sanitizer must stop. ctest compares the message of the emulator or the sanitizer with CMakeLists.txt.
// Exits with code 0 if the mistake was not noticed.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include "kernels/cuda/runtime/gpu.h"
#include "tests/kernels/cuda/device_array.h"

namespace hearth::cudaemu {
namespace {

using cuda::gpu_kernel;

cuda::KernelWork no_work() { return {}; }

// ---- mistakes that the emulator itself stops -------------------------------------------------------------

__global__ void divergent_barrier(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
    out[0] = 1;
  } else {
    out[1] = 2;
    __syncthreads();
  }
}

__global__ void divergent_warp(float* out) {
  float value = 1;
  if (threadIdx.x % 2 == 0) {
    value += __shfl_xor_sync(0xffffffffu, value, 2);
  } else {
    value -= __shfl_xor_sync(0xffffffffu, value, 2);
  }
  out[threadIdx.x] = value;
}

__global__ void mask_without_caller(float* out) {
  out[threadIdx.x] = __shfl_sync(0x0000ffffu, out[threadIdx.x], 0);
}

/// Lane 0 waits for the warp; the others wait for the block.
__global__ void deadlock(float* out) {
  if (threadIdx.x == 0) __syncwarp();
  __syncthreads();
  out[threadIdx.x] = 0;
}

__global__ void trap(float* out) {
  if (threadIdx.x == 3) __trap();
  out[threadIdx.x] = 0;
}

/// Every block dies at the same time as the others, each in its own thread.
__global__ void trap_everywhere(float* out) {
  static std::atomic<unsigned> n_here = 0;
  if (threadIdx.x == 0) {
    ++n_here;
    while (n_here < gridDim.x) {
    }
    __trap();
  }
  out[threadIdx.x] = 0;
}

/// Reads pairs that begin 4 bytes behind a multiple of 8. Processors permit that and GPUs do not.
__global__ void misaligned_pair(float* out) {
  __shared__ __align__(8) float shared[4];
  if (threadIdx.x < 4) shared[threadIdx.x] = 1;
  __syncthreads();
  const float2 pair = *cuda::gpu_aligned<float2>(shared + 1);
  if (threadIdx.x == 0) out[0] = pair.x + pair.y;
}

__global__ void misaligned_load(float* out) {
  const float2 pair = __ldg(reinterpret_cast<const float2*>(out + 1));
  if (threadIdx.x == 0) out[0] = pair.x + pair.y;
}

__global__ void misaligned_store(float* out) {
  if (threadIdx.x == 5) __stcs(reinterpret_cast<float4*>(out + 2), float4{});
}

__global__ void misaligned_async_copy(float* out) {
  __shared__ uint4 shared;
  cuda::gpu_cp_async16(&shared, out + 2);
}

// ---- mistakes that sanitizers find -----------------------------------------------------------------------

__global__ void global_overrun(float* out) {
  if (threadIdx.x <= 32) out[threadIdx.x] = 1;  // the array has 32 elements
}

__global__ void dynamic_shared_overrun(float* out) {
  GPU_DYN_SHARED(float, shared);
  shared[threadIdx.x] = 1;  // 64 threads, memory for 60
  __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x] = shared[threadIdx.x];
}

__global__ void static_shared_overrun(float* out) {
  __shared__ float shared[48];
  shared[threadIdx.x] = 1;  // 64 threads
  __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x] = shared[threadIdx.x];
}

/// Assigns one member, because the sanitizer does not check an assignment of the whole structure.
__global__ void misaligned(float* out) {
  if (threadIdx.x == 0) reinterpret_cast<float4*>(out + 1)->w = 4;
}

__global__ void missing_barrier(float* out) {
  __shared__ float shared[64];
  shared[threadIdx.x] = 1;
  if (threadIdx.x < 32) out[threadIdx.x] = shared[threadIdx.x / 2];  // correct in forward order
}

__global__ void missing_warp_barrier(float* out) {
  __shared__ float shared[2];
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = 1;
  if (threadIdx.x < 32) out[threadIdx.x] = shared[0];
}

__global__ void threads_race(float* out) { out[0] += 1; }

__global__ void blocks_race(float* out) {
  if (threadIdx.x == 0) out[0] += static_cast<float>(blockIdx.x);
}

struct Mistake {
  const char* name;
  const cuda::GpuKernel<void(float*)>& kernel;
};
const Mistake kMistakes[] = {
    {"divergent_barrier", gpu_kernel<divergent_barrier>},
    {"divergent_warp", gpu_kernel<divergent_warp>},
    {"mask_without_caller", gpu_kernel<mask_without_caller>},
    {"deadlock", gpu_kernel<deadlock>},
    {"trap", gpu_kernel<trap>},
    {"trap_everywhere", gpu_kernel<trap_everywhere>},
    {"misaligned_pair", gpu_kernel<misaligned_pair>},
    {"misaligned_load", gpu_kernel<misaligned_load>},
    {"misaligned_store", gpu_kernel<misaligned_store>},
    {"misaligned_async_copy", gpu_kernel<misaligned_async_copy>},
    {"global_overrun", gpu_kernel<global_overrun>},
    {"dynamic_shared_overrun", gpu_kernel<dynamic_shared_overrun>},
    {"static_shared_overrun", gpu_kernel<static_shared_overrun>},
    {"misaligned", gpu_kernel<misaligned>},
    {"missing_barrier", gpu_kernel<missing_barrier>},
    {"missing_warp_barrier", gpu_kernel<missing_warp_barrier>},
    {"threads_race", gpu_kernel<threads_race>},
    {"blocks_race", gpu_kernel<blocks_race>},
};

/// Two streams on the same memory, without an event between them.
void unordered_streams() {
  const test::TestStream a, b;
  const test::DeviceArray<float> x(32);
  cuda::check(cudaMemsetAsync(x.data(), 0, 32 * sizeof(float), a), "filling");
  cuda::check(cuda::gpu_launch(no_work, gpu_kernel<threads_race>, 1, 1, 0, b, x.data()), "launching");
}

/// The host overwrites memory that a copy is reading.
void write_under_copy() {
  const test::TestStream stream;
  const test::DeviceArray<float> x(32);
  float* pinned = nullptr;
  cuda::check(cudaMallocHost(&pinned, 32 * sizeof(float)), "allocating");
  cuda::check(cudaMemcpyAsync(x.data(), pinned, 32 * sizeof(float), cudaMemcpyHostToDevice, stream),
              "copying");
  pinned[5] = 7;
  stream.wait();
  cuda::check(cudaFreeHost(pinned), "freeing");
}

/// With Config::guard this alone stops the program.
void host_reads_device() {
  config().guard = true;
  const test::DeviceArray<float> x(32);
  std::printf("%f\n", static_cast<double>(x.data()[0]));
}

bool run(const char* name) {
  if (std::strcmp(name, "unordered_streams") == 0) return unordered_streams(), true;
  if (std::strcmp(name, "write_under_copy") == 0) return write_under_copy(), true;
  if (std::strcmp(name, "host_reads_device") == 0) return host_reads_device(), true;
  for (const Mistake& mistake : kMistakes) {
    if (std::strcmp(name, mistake.name) != 0) continue;
    const test::TestStream stream;
    const test::DeviceArray<float> out(std::vector<float>(32, 0.0f));
    cuda::check(cuda::gpu_launch(no_work, mistake.kernel, 4, 64, 60 * sizeof(float), stream, out.data()),
                "launching");
    stream.wait();
    return true;
  }
  return false;
}

}  // namespace
}  // namespace hearth::cudaemu

int main(int argc, char** argv) try {
  // ctest treats a signal as a failure, whatever was printed before.
  std::signal(SIGABRT, [](int) { std::_Exit(1); });
  std::signal(SIGSEGV, [](int) {
    std::fputs("stopped by SIGSEGV\n", stderr);
    std::_Exit(1);
  });
  if (argc != 2 || !hearth::cudaemu::run(argv[1])) {
    std::fprintf(stderr, "cudaemu_mistakes: which mistake? One of those in mistakes.cpp.\n");
    return 2;
  }
  std::puts("nobody has noticed");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
