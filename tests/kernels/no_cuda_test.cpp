// A build without CUDA says so.
#include "kernels/cuda/device.h"
#include "tests/support/catch.h"

TEST_CASE("a build without CUDA finds no GPU and says why") {
  CHECK(hearth::cuda::describe(hearth::cuda::probe()) ==
        "CUDA: none (built without CUDA), running on the CPU");
}
