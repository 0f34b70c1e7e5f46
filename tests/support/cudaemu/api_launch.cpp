// Launches kernels, with the checks that the driver makes. Also returns kernels' attributes, and loads
// kernels on first use.
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "tests/support/cudaemu/api_calls.h"
#include "tests/support/cudaemu/grid.h"
#include "tests/support/cudaemu/launch.h"
#include "tests/support/cudaemu/memory.h"
#include "tests/support/cudaemu/order.h"
#include "tests/support/cudaemu/stats.h"

namespace hearth::cudaemu {
namespace {

constexpr size_t kSharedBytes = 48 << 10;  // dynamic shared memory that needs no cudaFuncSetAttribute

std::mutex limits_mutex;
std::map<const void*, size_t>& shared_limits() {
  static std::map<const void*, size_t> limits;
  return limits;
}

size_t shared_limit(const void* kernel) {
  const UnseenLock lock(limits_mutex);
  const auto found = shared_limits().find(kernel);
  return found == shared_limits().end() ? kSharedBytes : found->second;
}

struct Used {
  std::set<const void*> loaded, launched;
};
std::mutex used_mutex;
Used& used() {
  static Used kernels;
  return kernels;
}

/// Loads a kernel that is not loaded yet. launches: whether it is launched too.
cudaError_t use(const void* kernel, bool launches) {
  const UnseenLock lock(used_mutex);
  if (!used().loaded.contains(kernel)) {
    if (const cudaError_t error = take_code()) return error;
    used().loaded.insert(kernel);
    count(&Stats::loaded_kernels);
  }
  if (launches && used().launched.insert(kernel).second) count(&Stats::first_launches);
  return cudaSuccess;
}

/// CUDA C++ Programming Guide, technical specifications per compute capability.
bool is_valid_shape(dim3 grid, dim3 block) {
  const uint64_t n_threads = uint64_t{block.x} * block.y * block.z;
  return n_threads > 0 && n_threads <= 1024 && block.z <= 64 && grid.x > 0 && grid.x <= 0x7fffffffu &&
         grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535;
}

}  // namespace

bool device_can_reach(const void* p) { return p == nullptr || place_of(p, 1) != Place::kUnknown; }

cudaError_t refuse_host_pointer() { return finish_call(cudaErrorInvalidValue); }

cudaError_t enqueue_kernel(const Launch& launch, std::function<void()> thread,
                           std::function<cuda::KernelWork()> work, cudaStream_t stream) {
  return api_call("launch", [&] {
    if (!is_valid_shape(launch.grid, launch.block)) return cudaErrorInvalidConfiguration;
    if (launch.shared_bytes > shared_limit(launch.kernel)) return cudaErrorInvalidValue;
    if (const cudaError_t error = use(launch.kernel, /*launches=*/true)) return error;
    return enqueue(stream,
                   {WorkKind::kKernel, 0, launch.kernel,
                    [launch, thread = std::move(thread)] { run_grid(launch, thread); }, std::move(work)});
  });
}

void forget_kernels() {
  const UnseenLock lock(used_mutex);
  used() = {};
  give_back_code();
}

}  // namespace hearth::cudaemu

using namespace hearth::cudaemu;

/// The emulator compiles for the host, so it knows neither registers nor local memory.
extern "C" cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return api_call("cudaFuncGetAttributes", [&] {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    return use(kernel, /*launches=*/false);
  });
}

extern "C" cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return api_call("cudaFuncSetAttribute", [&] {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<size_t>(value) > config().shared_optin_bytes) return cudaErrorInvalidValue;
    const UnseenLock lock(limits_mutex);
    shared_limits()[kernel] = static_cast<size_t>(value);
    return cudaSuccess;
  });
}
