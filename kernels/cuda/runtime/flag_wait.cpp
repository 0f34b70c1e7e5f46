// Implements wait_for_number().
#include "kernels/cuda/runtime/flag_wait.h"

#include <stdexcept>
#include <string>
#include <thread>

#include "kernels/base/pause.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kPausesPerQuery = 1000;  // each of about 0.04 us

bool has_come(const uint32_t& number, uint32_t wanted) {
  return __atomic_load_n(&number, __ATOMIC_ACQUIRE) ==
         wanted;  // std::atomic_ref needs a non-const object in C++20
}

}  // namespace

void wait_for_number(const uint32_t& number, uint32_t wanted, cudaStream_t stream, const char* what) {
  wait_simulated(number);
  for (;;) {
    for (int i = 0; i < kPausesPerQuery; ++i) {
      if (has_come(number, wanted)) return;
      pause_in_wait();
    }
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaErrorNotReady) {
      std::this_thread::yield();
      continue;
    }
    check(state, (std::string("waiting for ") + what).c_str());
    if (has_come(number, wanted)) return;
    throw std::runtime_error(std::string("The device has finished its work without handing over ") + what +
                             "; this is a mistake in Hearth.");
  }
}

}  // namespace hearth::cuda
