// Failures of emulated CUDA: a call fails when a test tells it to, and failing work breaks the device.
#include <functional>
#include <string>
#include <thread>

#include "kernels/cuda/runtime/gpu.h"
#include "tests/support/cudaemu_test/emulated.h"

namespace hearth::cudaemu {
namespace {

using cuda::gpu_kernel;
using cuda::gpu_launch;
using test::DeviceArray;
using test::TestStream;

__global__ void add_one_kernel(int* value) { *value += 1; }

/// The objects that the calls below need.
struct World {
  TestStream stream;
  DeviceArray<int> value{std::vector<int>{0}};
  int on_host = 0;
  int* pinned = nullptr;
  cudaEvent_t event = nullptr;

  World() {
    REQUIRE(cudaMallocHost(&pinned, 16) == cudaSuccess);
    REQUIRE(cudaEventCreate(&event) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
    REQUIRE(cudaEventSynchronize(event) == cudaSuccess);
  }
  ~World() {
    cudaFreeHost(pinned);
    cudaEventDestroy(event);
  }
};

struct Call {
  const char* name;
  std::function<cudaError_t(World&)> run;  // succeeds, and restores the world
  bool asks_device = true;                 // such calls fail when the device is lost
};

/// Calls `then` if `error` is success.
cudaError_t and_then(cudaError_t error, const std::function<cudaError_t()>& then) {
  return error == cudaSuccess ? then() : error;
}

/// Calls again if the first call fails; returns the first error.
cudaError_t insist(const std::function<cudaError_t()>& call) {
  const cudaError_t error = call();
  if (error != cudaSuccess) call();
  return error;
}

/// One call for each way in which the API handles errors (errors.h, api_calls.h). failures_test.cpp in
/// tests/engine/cuda makes every call of the product fail.
const std::vector<Call>& calls() {
  static const std::vector<Call> calls = {
      {"cudaMalloc",
       [](World&) {
         void* p = nullptr;
         return and_then(cudaMalloc(&p, 16), [&] { return cudaFree(p); });
       }},
      {"cudaHostUnregister",
       [](World& w) {
         return and_then(cudaHostRegister(&w.on_host, 4, 0),
                         [&] { return insist([&] { return cudaHostUnregister(&w.on_host); }); });
       }},
      {"cudaStreamSynchronize", [](World& w) { return cudaStreamSynchronize(w.stream); }},
      {"launch",
       [](World& w) {
         return gpu_launch(no_work, gpu_kernel<add_one_kernel>, 1, 1, 0, w.stream, w.value.data());
       }},
      {"cudaGetDevice",
       [](World&) {
         int device = 0;
         return cudaGetDevice(&device);
       },
       false},
  };
  return calls;
}

TEST_CASE("emulated: a call fails once on a test's request, and does nothing then") {
  Emulated emulated;
  World world;
  for (const Call& call : calls()) {
    CAPTURE(call.name);
    reset_stats();
    const size_t vram = stats().vram_used, pinned = stats().pinned_used;
    fail_next(call.name, 1, cudaErrorUnknown);
    REQUIRE(call.run(world) == cudaSuccess);
    REQUIRE(call.run(world) == cudaErrorUnknown);
    REQUIRE(cudaPeekAtLastError() == cudaErrorUnknown);
    REQUIRE(cudaGetLastError() == cudaErrorUnknown);
    REQUIRE(cudaGetLastError() == cudaSuccess);
    REQUIRE(call.run(world) == cudaSuccess);
    REQUIRE(stats().vram_used == vram);
    REQUIRE(stats().pinned_used == pinned);
  }
}

TEST_CASE("emulated: a call can fail several times, also by a request in text form") {
  Emulated emulated;
  void* p = nullptr;
  const auto allocate = [&] {
    const cudaError_t error = cudaMalloc(&p, 1);
    cudaFree(p);
    return error;
  };
  fail_next("cudaMalloc", 1, cudaErrorMemoryAllocation, 2);
  CHECK(allocate() == cudaSuccess);
  CHECK(allocate() == cudaErrorMemoryAllocation);
  CHECK(allocate() == cudaErrorMemoryAllocation);
  CHECK(allocate() == cudaSuccess);
  CHECK(call_counts() == std::map<std::string, uint64_t>{{"cudaFree", 4}, {"cudaMalloc", 4}});
  reset_stats();
  CHECK(call_counts().empty());

  fail_as_told("cudaMalloc:0:2:2,host function:3:700,cudaDeviceSynchronize:0:999");
  CHECK(allocate() == cudaErrorMemoryAllocation);
  CHECK(allocate() == cudaErrorMemoryAllocation);
  CHECK(allocate() == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaErrorUnknown);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  for (const char* wrong : {"cudaMalloc", "cudaMalloc:0", "cudaMalloc:0:2:", ":0:2", "cudaMalloc:-1:2",
                            "cudaMalloc:0:2 ,", "cudaMalloc:0:99999999999"}) {
    CHECK_THROWS_WITH(fail_as_told(wrong), ContainsSubstring("API:N_GOOD:ERROR"));
  }
}

TEST_CASE("emulated: the last error is its thread's own") {
  Emulated emulated;
  fail_next("cudaDeviceSynchronize", 0, cudaErrorUnknown);
  std::jthread([] { CHECK(cudaDeviceSynchronize() == cudaErrorUnknown); }).join();
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("emulated: a kernel that faults loses the device: calls fail, and nothing more is done") {
  Emulated emulated;
  World world;
  Gate gate;
  gate.hold(world.stream);
  const auto launch = [&] {
    return gpu_launch(no_work, gpu_kernel<add_one_kernel>, 1, 1, 0, world.stream, world.value.data());
  };
  fail_next("kernel", 1, cudaErrorIllegalAddress);
  REQUIRE(launch() == cudaSuccess);
  REQUIRE(launch() == cudaSuccess);  // this launch will fault when its turn comes
  REQUIRE(launch() == cudaSuccess);
  bool called = false;
  REQUIRE(cudaLaunchHostFunc(
              world.stream, [](void* flag) { *static_cast<bool*>(flag) = true; }, &called) == cudaSuccess);
  REQUIRE(cudaEventRecord(world.event, world.stream) == cudaSuccess);
  gate.open();
  CHECK(cudaEventSynchronize(world.event) == cudaErrorIllegalAddress);
  CHECK(cudaStreamSynchronize(world.stream) == cudaErrorIllegalAddress);
  CHECK(stats().launches == 1);
  CHECK_FALSE(called);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);  // the error is not cleared
  std::jthread([] { CHECK(cudaPeekAtLastError() == cudaErrorIllegalAddress); }).join();
  for (const Call& call : calls()) {
    CAPTURE(call.name);
    REQUIRE(call.run(world) == (call.asks_device ? cudaErrorIllegalAddress : cudaSuccess));
  }

  repair_device();
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(world.value.read(world.stream)[0] == 1);
  CHECK(launch() == cudaSuccess);
  CHECK(world.value.read(world.stream)[0] == 2);
}

TEST_CASE("emulated: copies, fills and host functions can fail when they run") {
  Emulated emulated;
  World world;
  const std::string kind = GENERATE("copy", "fill", "host function");
  fail_next(kind.c_str(), 0, cudaErrorLaunchFailure);
  REQUIRE(cudaMemsetAsync(world.value.data(), 0, 4, world.stream) == cudaSuccess);
  if (kind != "fill") REQUIRE(cudaStreamSynchronize(world.stream) == cudaSuccess);
  if (kind == "copy")
    REQUIRE(cudaMemcpyAsync(world.pinned, world.value.data(), 4, cudaMemcpyDefault, world.stream) ==
            cudaSuccess);
  if (kind == "host function")
    REQUIRE(cudaLaunchHostFunc(
                world.stream, [](void*) {}, nullptr) == cudaSuccess);
  CHECK(cudaStreamSynchronize(world.stream) == cudaErrorLaunchFailure);
}

TEST_CASE("emulated: memory can be freed on a lost device") {
  Emulated emulated;
  const size_t before = stats().vram_used;
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, 4096) == cudaSuccess);
  fail_next("fill", 0, cudaErrorIllegalAddress);
  CHECK(cudaMemset(p, 0, 4096) == cudaSuccess);  // asynchronous on device memory
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(cudaFree(p) == cudaErrorIllegalAddress);
  CHECK(stats().vram_used == before);
}

TEST_CASE("emulated: errors have the runtime's names and texts") {
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorString(cudaSuccess)) == "no error");
}

}  // namespace
}  // namespace hearth::cudaemu
