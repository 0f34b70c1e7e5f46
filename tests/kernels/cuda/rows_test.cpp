// Operations on rows and elements: the bits of the CPU backend.
#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/support/catch.h"

namespace {

using namespace hearth;
using test::DeviceArray;

TEST_CASE("add adds every element and nothing behind them") {
  for (size_t n : {0, 1, 255, 256, 257, 1000}) {
    std::vector<float> x(n), out(n);
    for (size_t i = 0; i < n; ++i) {
      x[i] = 0.1f * static_cast<float>(i);
      out[i] = 1.0f - static_cast<float>(i);
    }
    const test::TestStream stream;
    const DeviceArray<float> on_device(x), result(out);
    cuda::add(on_device.data(), static_cast<int64_t>(n), result.data(), stream);
    for (size_t i = 0; i < n; ++i) out[i] += x[i];
    REQUIRE(result.read(stream) == out);
  }
}

}  // namespace
