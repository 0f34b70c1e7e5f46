// A build without CUDA reports that it has no CUDA.
#include "kernels/cuda/bench/speed.h"
#include "kernels/cuda/runtime/device.h"
#include "tests/support/catch.h"

TEST_CASE("a build without CUDA finds no GPU and says why") {
  CHECK(hearth::cuda::describe(hearth::cuda::probe()) ==
        "CUDA: none (built without CUDA), running on the CPU");
  CHECK_THROWS_WITH(hearth::cuda::measure_bandwidth(), ContainsSubstring("built without CUDA"));
  CHECK_THROWS_WITH(hearth::cuda::measure_latency(), ContainsSubstring("built without CUDA"));
}
