// Failures of emulated CUDA: every call fails when a test wants it, and failing work loses the device.
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

/// One of each object that the API's calls need.
struct World {
  TestStream stream;
  DeviceArray<int> value{std::vector<int>{0}};
  int on_host = 0;
  int* pinned = nullptr;
  void* mapped = nullptr;
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;

  World() {
    REQUIRE(cudaMallocHost(&pinned, 16) == cudaSuccess);
    REQUIRE(cudaEventCreate(&event) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
    REQUIRE(cudaEventSynchronize(event) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  }
  ~World() {
    cudaFreeHost(pinned);
    cudaEventDestroy(event);
    cudaGraphDestroy(graph);
    cudaGraphExecDestroy(exec);
  }
};

struct Call {
  const char* name;
  std::function<cudaError_t(World&)> run;  // succeeds, and leaves the world as it was
  bool asks_device = true;                 // and so fails when that is lost
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

const std::vector<Call>& memory_calls() {
  static const std::vector<Call> calls = {
      {"cudaMalloc",
       [](World&) {
         void* p = nullptr;
         return and_then(cudaMalloc(&p, 16), [&] { return cudaFree(p); });
       }},
      {"cudaMallocHost",
       [](World&) {
         void* p = nullptr;
         return and_then(cudaMallocHost(&p, 16), [&] { return cudaFreeHost(p); });
       }},
      {"cudaHostAlloc",
       [](World&) {
         void* p = nullptr;
         return and_then(cudaHostAlloc(&p, 16, 0), [&] { return cudaFreeHost(p); });
       }},
      {"cudaFree", [](World&) { return cudaFree(nullptr); }},
      {"cudaFreeHost", [](World&) { return cudaFreeHost(nullptr); }},
      {"cudaHostRegister",
       [](World& w) {
         return and_then(cudaHostRegister(&w.on_host, 4, 0), [&] { return cudaHostUnregister(&w.on_host); });
       }},
      {"cudaHostUnregister",
       [](World& w) {
         return and_then(cudaHostRegister(&w.on_host, 4, 0),
                         [&] { return insist([&] { return cudaHostUnregister(&w.on_host); }); });
       }},
      {"cudaHostGetDevicePointer", [](World& w) { return cudaHostGetDevicePointer(&w.mapped, w.pinned, 0); }},
      {"cudaMemGetInfo",
       [](World&) {
         size_t free = 0, total = 0;
         return cudaMemGetInfo(&free, &total);
       }},
      {"cudaPointerGetAttributes",
       [](World& w) {
         cudaPointerAttributes attributes;
         return cudaPointerGetAttributes(&attributes, w.pinned);
       }},
      {"cudaMemcpyAsync",
       [](World& w) {
         return cudaMemcpyAsync(w.pinned, w.value.data(), 4, cudaMemcpyDeviceToHost, w.stream);
       }},
      {"cudaMemcpy2DAsync",
       [](World& w) {
         return cudaMemcpy2DAsync(w.pinned, 4, w.value.data(), 4, 4, 1, cudaMemcpyDefault, w.stream);
       }},
      {"cudaMemcpy",
       [](World& w) {
         cudaStreamSynchronize(w.stream);
         return cudaMemcpy(w.pinned, w.value.data(), 4, cudaMemcpyDefault);
       }},
      {"cudaMemsetAsync", [](World& w) { return cudaMemsetAsync(w.value.data(), 0, 4, w.stream); }},
      {"cudaMemset",
       [](World& w) {
         cudaStreamSynchronize(w.stream);
         return and_then(cudaMemset(w.value.data(), 0, 4), [] { return cudaStreamSynchronize(nullptr); });
       }},
  };
  return calls;
}

cudaError_t make_and_destroy(const std::function<cudaError_t(cudaStream_t*)>& make) {
  cudaStream_t stream = nullptr;
  return and_then(make(&stream), [&] { return insist([&] { return cudaStreamDestroy(stream); }); });
}

cudaError_t capture_nothing(World& w) {
  cudaGraph_t graph = nullptr;
  return and_then(cudaStreamBeginCapture(w.stream, cudaStreamCaptureModeRelaxed), [&] {
    const cudaError_t ended = cudaStreamEndCapture(w.stream, &graph);  // even a failure ends the capture
    const cudaError_t destroyed = insist([&] { return cudaGraphDestroy(graph); });
    return ended == cudaSuccess ? destroyed : ended;
  });
}

const std::vector<Call>& stream_calls() {
  static const std::vector<Call> calls = {
      {"cudaStreamCreate", [](World&) { return make_and_destroy(cudaStreamCreate); }},
      {"cudaStreamCreateWithFlags",
       [](World&) {
         return make_and_destroy(
             [](cudaStream_t* s) { return cudaStreamCreateWithFlags(s, cudaStreamNonBlocking); });
       }},
      {"cudaStreamCreateWithPriority",
       [](World&) {
         return make_and_destroy(
             [](cudaStream_t* s) { return cudaStreamCreateWithPriority(s, cudaStreamNonBlocking, 0); });
       }},
      {"cudaStreamDestroy", [](World&) { return make_and_destroy(cudaStreamCreate); }},
      {"cudaDeviceGetStreamPriorityRange",
       [](World&) {
         int least = 0, greatest = 0;
         return cudaDeviceGetStreamPriorityRange(&least, &greatest);
       }},
      {"cudaStreamGetPriority",
       [](World& w) {
         int priority = 0;
         return cudaStreamGetPriority(w.stream, &priority);
       }},
      {"cudaStreamSynchronize", [](World& w) { return cudaStreamSynchronize(w.stream); }},
      {"cudaStreamQuery",
       [](World& w) {
         w.stream.wait();
         return cudaStreamQuery(w.stream);
       }},
      {"cudaDeviceSynchronize", [](World&) { return cudaDeviceSynchronize(); }},
      {"cudaLaunchHostFunc",
       [](World& w) {
         return cudaLaunchHostFunc(
             w.stream, [](void*) {}, nullptr);
       }},
      {"cudaEventCreate",
       [](World&) {
         cudaEvent_t event = nullptr;
         return and_then(cudaEventCreate(&event), [&] { return cudaEventDestroy(event); });
       }},
      {"cudaEventDestroy",
       [](World&) {
         cudaEvent_t event = nullptr;
         return and_then(cudaEventCreate(&event),
                         [&] { return insist([&] { return cudaEventDestroy(event); }); });
       }},
      {"cudaEventCreateWithFlags",
       [](World&) {
         cudaEvent_t event = nullptr;
         return and_then(cudaEventCreateWithFlags(&event, 0), [&] { return cudaEventDestroy(event); });
       }},
      {"cudaEventRecord",
       [](World& w) {
         return and_then(cudaEventRecord(w.event, w.stream), [&] { return cudaEventSynchronize(w.event); });
       }},
      {"cudaStreamWaitEvent", [](World& w) { return cudaStreamWaitEvent(w.stream, w.event, 0); }},
      {"cudaEventSynchronize", [](World& w) { return cudaEventSynchronize(w.event); }},
      {"cudaEventQuery", [](World& w) { return cudaEventQuery(w.event); }},
      {"cudaEventElapsedTime",
       [](World& w) {
         float ms = 0;
         return cudaEventElapsedTime(&ms, w.event, w.event);
       }},
      {"launch",
       [](World& w) {
         return gpu_launch(no_work, gpu_kernel<add_one_kernel>, 1, 1, 0, w.stream, w.value.data());
       }},
      {"cudaFuncSetAttribute",
       [](World&) {
         return cudaFuncSetAttribute(reinterpret_cast<const void*>(add_one_kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, 1024);
       }},
      {"cudaGraphLaunch", [](World& w) { return cudaGraphLaunch(w.exec, w.stream); }},
      {"cudaGraphGetNodes",
       [](World& w) {
         size_t n = 0;
         return cudaGraphGetNodes(w.graph, nullptr, &n);
       }},
      {"cudaGraphInstantiate",
       [](World& w) {
         cudaGraphExec_t exec = nullptr;
         return and_then(cudaGraphInstantiate(&exec, w.graph, 0), [&] { return cudaGraphExecDestroy(exec); });
       }},
      {"cudaGraphExecDestroy",
       [](World& w) {
         cudaGraphExec_t exec = nullptr;
         return and_then(cudaGraphInstantiate(&exec, w.graph, 0),
                         [&] { return insist([&] { return cudaGraphExecDestroy(exec); }); });
       }},
      {"cudaStreamBeginCapture", [](World& w) { return capture_nothing(w); }},
      {"cudaStreamEndCapture", [](World& w) { return capture_nothing(w); }},
      {"cudaGraphDestroy", [](World& w) { return capture_nothing(w); }},
      {"cudaGraphExecUpdate",
       [](World& w) {
         cudaGraphExecUpdateResultInfo info;
         return cudaGraphExecUpdate(w.exec, w.graph, &info);
       }},
      {"cudaStreamIsCapturing",
       [](World& w) {
         cudaStreamCaptureStatus status;
         return cudaStreamIsCapturing(w.stream, &status);
       }},
  };
  return calls;
}

const std::vector<Call>& device_calls() {
  static const std::vector<Call> calls = {
      {"cudaGetDeviceCount",
       [](World&) {
         int n = 0;
         return cudaGetDeviceCount(&n);
       },
       false},
      {"cudaSetDevice", [](World&) { return cudaSetDevice(0); }, false},
      {"cudaGetDevice",
       [](World&) {
         int device = 0;
         return cudaGetDevice(&device);
       },
       false},
      {"cudaGetDeviceProperties",
       [](World&) {
         cudaDeviceProp properties;
         return cudaGetDeviceProperties(&properties, 0);
       },
       false},
      {"cudaDeviceGetAttribute",
       [](World&) {
         int value = 0;
         return cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0);
       },
       false},
      {"cudaRuntimeGetVersion",
       [](World&) {
         int version = 0;
         return cudaRuntimeGetVersion(&version);
       },
       false},
      {"cudaDriverGetVersion",
       [](World&) {
         int version = 0;
         return cudaDriverGetVersion(&version);
       },
       false},
  };
  return calls;
}

std::vector<Call> all_calls() {
  std::vector<Call> all = memory_calls();
  all.insert(all.end(), stream_calls().begin(), stream_calls().end());
  all.insert(all.end(), device_calls().begin(), device_calls().end());
  return all;
}

TEST_CASE("emulated: every call fails when a test wants it to, once, and does nothing then") {
  Emulated emulated;
  World world;
  for (const Call& call : all_calls()) {
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

TEST_CASE("emulated: a call can fail several times, and as a text tells") {
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

TEST_CASE("emulated: a kernel that faults loses the device: calls fail, nothing more is done") {
  Emulated emulated;
  World world;
  Gate gate;
  gate.hold(world.stream);
  const auto launch = [&] {
    return gpu_launch(no_work, gpu_kernel<add_one_kernel>, 1, 1, 0, world.stream, world.value.data());
  };
  fail_next("kernel", 1, cudaErrorIllegalAddress);
  REQUIRE(launch() == cudaSuccess);
  REQUIRE(launch() == cudaSuccess);  // the one that faults, when its turn comes
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
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);  // not cleared
  std::jthread([] { CHECK(cudaPeekAtLastError() == cudaErrorIllegalAddress); }).join();
  for (const Call& call : all_calls()) {
    if (std::string(call.name) == "cudaStreamQuery") continue;  // its own wait would throw
    CAPTURE(call.name);
    REQUIRE(call.run(world) == (call.asks_device ? cudaErrorIllegalAddress : cudaSuccess));
  }

  repair_device();
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(world.value.read(world.stream)[0] == 1);
  CHECK(launch() == cudaSuccess);
  CHECK(world.value.read(world.stream)[0] == 2);
}

TEST_CASE("emulated: copies, fills and host functions can fail when their turn comes") {
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

TEST_CASE("emulated: memory given back on a lost device is given back") {
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
