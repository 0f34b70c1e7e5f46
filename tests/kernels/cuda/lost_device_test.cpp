// A device that fails while the CPU waits for its share of a layer causes an error and no hang.
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/hybrid/cold_share.h"

#include "kernels/cuda/runtime/cuda_error.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::test {

TEST_CASE("CUDA: a device lost while the CPU waits for its share is an error") {
  CpuBackend cpu(1, supported_isas().front());
  const StepBounds bounds{.max_tokens = 1, .max_cols = 64, .shares = true};
  cuda::Arena arena(size_t{1} << 20);
  const cuda::Scratch scratch(arena, bounds);
  const TestStream stream;
  cuda::ColdShare share(cpu);
  share.reserve(bounds, stream, scratch);
  const DeviceArray<float> x(64);
  const cuda::HandOver what =
      share.begin({.x = x.data(), .n_tokens = 1, .n_neurons = 64, .n_cols = 64}, scratch);
  cudaemu::fail_next("kernel", 0, cudaErrorIllegalAddress);
  cuda::hand_over(what, stream);
  try {
    share.wait(stream);
    FAIL("the device was lost, and nothing was said");
  } catch (const cuda::CudaError& error) {
    CHECK(error.code() == cudaErrorIllegalAddress);
    CHECK(std::string(error.what()).find("waiting for the CPU's share") != std::string::npos);
  }
  cudaemu::repair_device();
}

}  // namespace hearth::test
