// Memory of emulated CUDA: the VRAM limit, accounting, wrong frees, pinned and mapped memory, copies.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "kernels/cuda/runtime/gpu.h"
#include "tests/support/cudaemu_test/emulated.h"

namespace hearth::cudaemu {
namespace {

using cuda::gpu_kernel;
using cuda::gpu_launch;
using test::DeviceArray;
using test::TestStream;

size_t free_vram() {
  size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(total == config().vram_bytes);
  return free;
}

TEST_CASE("emulated: VRAM has the configured size, and is accounted in pieces of 512 bytes") {
  Emulated emulated;
  config().vram_bytes = 1 << 20;
  CHECK(free_vram() == 1 << 20);
  void *a = nullptr, *b = nullptr, *c = nullptr;
  REQUIRE(cudaMalloc(&a, 1) == cudaSuccess);
  CHECK(free_vram() == (1 << 20) - 512);
  REQUIRE(cudaMalloc(&b, 513) == cudaSuccess);
  CHECK(free_vram() == (1 << 20) - 3 * 512);
  CHECK(cudaMalloc(&c, (1 << 20) - 3 * 512 + 1) == cudaErrorMemoryAllocation);
  CHECK(c == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaMalloc(&c, ~size_t{0}) == cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&c, (1 << 20) - 3 * 512) == cudaSuccess);
  CHECK(free_vram() == 0);
  REQUIRE(cudaFree(c) == cudaSuccess);
  REQUIRE(cudaFree(b) == cudaSuccess);
  CHECK(stats().vram_used == 512);
  CHECK(stats().vram_peak == 1 << 20);
  REQUIRE(cudaFree(a) == cudaSuccess);
  CHECK(free_vram() == 1 << 20);
  reset_stats();
  CHECK(stats().vram_peak == 0);
  CHECK(cudaMalloc(&a, 0) == cudaSuccess);
  CHECK(a == nullptr);
}

TEST_CASE("emulated: other processes can occupy a part of VRAM") {
  Emulated emulated;
  config().vram_bytes = 1 << 20;
  config().vram_taken_bytes = (1 << 20) - 1024;
  CHECK(free_vram() == 1024);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 1025) == cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&p, 1024) == cudaSuccess);
  CHECK(free_vram() == 0);
  REQUIRE(cudaFree(p) == cudaSuccess);
  config().vram_taken_bytes = 2 << 20;
  CHECK(free_vram() == 0);
}

TEST_CASE("emulated: pinned and registered memory is accounted separately from VRAM") {
  Emulated emulated;
  void* pinned = nullptr;
  REQUIRE(cudaHostAlloc(&pinned, 1000, cudaHostAllocMapped) == cudaSuccess);
  std::vector<char> host(500);
  REQUIRE(cudaHostRegister(host.data(), 500, cudaHostRegisterMapped) == cudaSuccess);
  CHECK(stats().pinned_used == 1500);
  CHECK(stats().vram_used == 0);
  CHECK(stats().allocations == 2);
  CHECK(cudaHostRegister(host.data() + 499, 1, 0) == cudaErrorHostMemoryAlreadyRegistered);
  CHECK(cudaHostAlloc(&pinned, 1, 0x40) == cudaErrorInvalidValue);
  CHECK(cudaHostUnregister(pinned) == cudaErrorHostMemoryNotRegistered);
  CHECK(cudaFreeHost(host.data()) == cudaErrorInvalidValue);
  REQUIRE(cudaHostUnregister(host.data()) == cudaSuccess);
  CHECK(cudaHostUnregister(host.data()) == cudaErrorHostMemoryNotRegistered);
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(stats().pinned_used == 0);
}

TEST_CASE("emulated: freeing memory twice, or memory not allocated this way, is refused") {
  Emulated emulated;
  void *p = nullptr, *pinned = nullptr;
  REQUIRE(cudaMalloc(&p, 64) == cudaSuccess);
  REQUIRE(cudaMallocHost(&pinned, 64) == cudaSuccess);
  int foreign = 0;
  CHECK(cudaFree(&foreign) == cudaErrorInvalidValue);
  CHECK(cudaFree(static_cast<char*>(p) + 16) == cudaErrorInvalidValue);
  CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(p) == cudaErrorInvalidValue);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaFree(p) == cudaErrorInvalidValue);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaErrorInvalidValue);
}

TEST_CASE("emulated: pointers have attributes that say where they lie") {
  Emulated emulated;
  const DeviceArray<int> on_device(4);
  int on_host = 0;
  cudaPointerAttributes attributes;
  REQUIRE(cudaPointerGetAttributes(&attributes, on_device.data() + 3) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(cudaPointerGetAttributes(&attributes, on_device.data() + 4) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  REQUIRE(cudaPointerGetAttributes(&attributes, &on_host) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  void* mapped = nullptr;
  CHECK(cudaHostGetDevicePointer(&mapped, &on_host, 0) == cudaErrorInvalidValue);
  REQUIRE(cudaHostRegister(&on_host, sizeof on_host, 0) == cudaSuccess);
  REQUIRE(cudaPointerGetAttributes(&attributes, &on_host) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(cudaHostGetDevicePointer(&mapped, &on_host, 0) == cudaSuccess);
  REQUIRE(cudaHostUnregister(&on_host) == cudaSuccess);
}

/// The last block to finish signals the host.
__global__ void write_and_tell_kernel(unsigned* words, unsigned* count, unsigned* told, unsigned turn) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  words[i] = turn * 1000 + i;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0 || cuda::gpu_arrive(count) + 1 != gridDim.x) return;
  *count = 0;
  cuda::gpu_store_release_system(told, turn);
}

__global__ void double_kernel(int* values) { values[threadIdx.x] *= 2; }

TEST_CASE("emulated: kernels can access mapped host memory") {
  Emulated emulated;
  const TestStream stream;
  int* values = nullptr;
  REQUIRE(cudaHostAlloc(&values, 32 * sizeof(int), cudaHostAllocMapped) == cudaSuccess);
  std::iota(values, values + 32, 0);
  int* on_device = nullptr;
  REQUIRE(cudaHostGetDevicePointer(&on_device, values, 0) == cudaSuccess);
  REQUIRE(gpu_launch(no_work, gpu_kernel<double_kernel>, 1, 32, 0, stream, on_device) == cudaSuccess);
  stream.wait();
  for (int i = 0; i < 32; ++i) CHECK(values[i] == 2 * i);
  REQUIRE(cudaFreeHost(values) == cudaSuccess);
}

TEST_CASE("emulated: a host that sees a kernel's word sees all that its blocks wrote before it") {
  Emulated emulated;
  config().block_workers = 2;
  constexpr unsigned kBlocks = 5, kThreads = 64, kWords = kBlocks * kThreads;
  const TestStream stream;
  const DeviceArray<unsigned> count(std::vector<unsigned>{0});
  unsigned* words = nullptr;
  REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&words), (kWords + 1) * sizeof(unsigned),
                        cudaHostAllocMapped) == cudaSuccess);
  words[kWords] = 0;
  for (unsigned turn = 1; turn <= 20; ++turn) {
    REQUIRE(gpu_launch(no_work, gpu_kernel<write_and_tell_kernel>, kBlocks, kThreads, 0, stream, words,
                       count.data(), words + kWords, turn) == cudaSuccess);
    while (std::atomic_ref(words[kWords]).load(std::memory_order_acquire) != turn) std::this_thread::yield();
    for (unsigned i = 0; i < kWords; ++i) REQUIRE(words[i] == turn * 1000 + i);
  }
  stream.wait();
  REQUIRE(cudaFreeHost(words) == cudaSuccess);
}

TEST_CASE("emulated: fresh memory is filled with NaN") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<unsigned> fresh(100);
  CHECK(fresh.read(stream) == std::vector<unsigned>(100, 0xffffffffu));
}

TEST_CASE("emulated: copies stay inside allocations and go where they say") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<char> a(100), b(100);
  char *pinned = nullptr, pageable[100] = {};
  REQUIRE(cudaMallocHost(&pinned, 100) == cudaSuccess);
  const auto copy = [&](void* to, const void* from, size_t n, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, n, kind, stream);
  };
  CHECK(copy(a.data(), pinned, 100, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(copy(a.data(), pinned, 101, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(a.data() + 1, pinned, 100, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(a.data(), pinned + 1, 100, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(a.data(), b.data(), 100, cudaMemcpyHostToDevice) == cudaErrorInvalidMemcpyDirection);
  CHECK(copy(pageable, a.data(), 100, cudaMemcpyHostToDevice) == cudaErrorInvalidMemcpyDirection);
  CHECK(copy(a.data(), b.data(), 100, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(copy(pinned, b.data(), 100, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemsetAsync(a.data(), 1, 101, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(pageable, 1, 1, stream) == cudaErrorInvalidValue);
  CHECK(stats().pageable_async == 0);
  CHECK(stats().h2d_bytes == 100);
  CHECK(stats().d2h_bytes == 100);
  stream.wait();
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE(
    "emulated: pageable copies are counted; sources are read at once, copies to the host are waited for") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<int> on_device(4);
  std::vector<int> values = {1, 2, 3, 4};
  Gate gate;
  gate.hold(stream);
  REQUIRE(cudaMemcpyAsync(on_device.data(), values.data(), 16, cudaMemcpyHostToDevice, stream) ==
          cudaSuccess);
  values.assign(4, 9);  // the copy already has its values
  CHECK(stats().pageable_async == 1);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  gate.open();
  REQUIRE(cudaMemcpyAsync(values.data(), on_device.data(), 16, cudaMemcpyDeviceToHost, stream) ==
          cudaSuccess);
  CHECK(values == std::vector<int>{1, 2, 3, 4});  // without any synchronization
  CHECK(stats().pageable_async == 2);
}

TEST_CASE("emulated: a copy of pinned memory returns at once and reads when it is done") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<int> on_device(1);
  int* value = nullptr;
  REQUIRE(cudaMallocHost(&value, sizeof(int)) == cudaSuccess);
  *value = 1;
  Gate gate;
  gate.hold(stream);
  REQUIRE(cudaMemcpyAsync(on_device.data(), value, sizeof(int), cudaMemcpyHostToDevice, stream) ==
          cudaSuccess);
  *value = 2;  // a mistake in a program; here it shows that the copy was still under way
  gate.open();
  CHECK(on_device.read(stream)[0] == 2);
  REQUIRE(cudaFreeHost(value) == cudaSuccess);
}

TEST_CASE("emulated: rows of a 2D copy have their pitches, staged or not") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<char> on_device(std::vector<char>(5 * 8, 0));  // five rows of 8
  reset_stats();
  char* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 5 * 6) == cudaSuccess);
  std::vector<char> pageable(30);
  std::iota(pageable.begin(), pageable.end(), 1);
  std::copy(pageable.begin(), pageable.end(), pinned);
  const char* from = GENERATE(true, false) ? pinned : pageable.data();
  CHECK(cudaMemcpy2DAsync(on_device.data(), 8, from, 6, 9, 5, cudaMemcpyHostToDevice, stream) ==
        cudaErrorInvalidPitchValue);
  CHECK(cudaMemcpy2DAsync(on_device.data() + 8, 8, pinned, 6, 6, 5, cudaMemcpyHostToDevice, stream) ==
        cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy2DAsync(on_device.data(), 8, from, 6, 6, 5, cudaMemcpyHostToDevice, stream) ==
          cudaSuccess);
  const std::vector<char> rows = on_device.read(stream);
  for (int row = 0; row < 5; ++row)
    for (int column = 0; column < 8; ++column)
      REQUIRE(rows[static_cast<size_t>(row * 8 + column)] == (column < 6 ? row * 6 + column + 1 : 0));
  CHECK(stats().h2d_bytes == 30);
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("emulated: guarded memory works for kernels and copies like any other") {
  Emulated emulated;
  config().guard = true;
  const TestStream stream;
  std::vector<int> values(32);
  std::iota(values.begin(), values.end(), 0);
  const DeviceArray<int> on_device(values);
  REQUIRE(gpu_launch(no_work, gpu_kernel<double_kernel>, 1, 32, 0, stream, on_device.data()) == cudaSuccess);
  const std::vector<int> result = on_device.read(stream);
  for (int i = 0; i < 32; ++i) REQUIRE(result[static_cast<size_t>(i)] == 2 * i);
}

}  // namespace
}  // namespace hearth::cudaemu
