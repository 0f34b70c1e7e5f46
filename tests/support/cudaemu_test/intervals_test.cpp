// Intervals of emulated CUDA: what ran when, under which name, how large, and how copies share the bus.
#include <latch>

#include "kernels/cuda/runtime/gpu.h"
#include "tests/support/cudaemu_test/emulated.h"

namespace hearth::cudaemu {

/// Not in an anonymous namespace, because its name is compared.
__global__ void named_kernel(int* value) { *value += 1; }

namespace {

using cuda::gpu_kernel;
using cuda::gpu_launch;
using test::DeviceArray;
using test::TestStream;

template <int N>
__global__ void add_kernel(int* value) {
  *value += N;
}

/// Page-locked memory for a test's copies.
class Pinned {
 public:
  explicit Pinned(size_t n_bytes) { REQUIRE(cudaMallocHost(&data_, n_bytes) == cudaSuccess); }
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

TEST_CASE("emulated: intervals show what a stream did, and are recorded only on request") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<int> value(std::vector<int>{0});
  const Pinned host(4);
  REQUIRE(gpu_launch(no_work, gpu_kernel<named_kernel>, 1, 1, 0, stream, value.data()) == cudaSuccess);
  stream.wait();
  CHECK(intervals().empty());

  record_intervals(true);
  REQUIRE(cudaMemcpyAsync(value.data(), host.data(), 4, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(value.data(), 0, 4, stream) == cudaSuccess);
  REQUIRE(gpu_launch(no_work, gpu_kernel<named_kernel>, 1, 1, 0, stream, value.data()) == cudaSuccess);
  REQUIRE(gpu_launch(no_work, gpu_kernel<add_kernel<3>>, 1, 1, 0, stream, value.data()) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(host.data(), value.data(), 4, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
  REQUIRE(cudaLaunchHostFunc(
              stream, [](void*) {}, nullptr) == cudaSuccess);
  stream.wait();
  const std::vector<Interval> all = intervals();
  const std::vector<WorkKind> want = {WorkKind::kHostToDevice, WorkKind::kFill,
                                      WorkKind::kKernel,       WorkKind::kKernel,
                                      WorkKind::kDeviceToHost, WorkKind::kHostFunction};
  REQUIRE(all.size() == want.size());
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].kind == want[i]);
    CHECK(all[i].stream == stream);
    CHECK(all[i].begin <= all[i].end);
    if (i > 0) CHECK(all[i - 1].end <= all[i].begin);
  }
  CHECK(all[0].n_bytes == 4);
  CHECK(all[2].name == "hearth::cudaemu::named_kernel");
  CHECK(all[3].name == "hearth::cudaemu::add_kernel<3>");
  record_intervals(false);
  CHECK(intervals().empty());
}

TEST_CASE("emulated: simultaneous work of two streams has overlapping intervals") {
  Emulated emulated;
  record_intervals(true);
  const TestStream a, b;
  std::latch both(2);  // each kernel ends after the other has begun
  for (const cudaStream_t stream : {cudaStream_t{a}, cudaStream_t{b}})
    REQUIRE(cudaLaunchHostFunc(
                stream, [](void* latch) { static_cast<std::latch*>(latch)->arrive_and_wait(); }, &both) ==
            cudaSuccess);
  a.wait();
  b.wait();
  const std::vector<Interval> all = intervals();
  REQUIRE(all.size() == 2);
  CHECK(all[0].stream != all[1].stream);
  CHECK(all[0].overlaps(all[1]));
}

TEST_CASE("emulated: a bus of a given speed runs copies of one direction one by one") {
  Emulated emulated;
  config().bus_mb_per_s = 100;
  constexpr size_t kBytes = 400'000;  // 4 ms each
  const TestStream a, b, c;
  const DeviceArray<char> x(kBytes), y(kBytes), z(kBytes);
  const Pinned host(kBytes), host_too(kBytes), back(kBytes);
  record_intervals(true);
  REQUIRE(cudaMemcpyAsync(x.data(), host.data(), kBytes, cudaMemcpyDefault, a) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(y.data(), host_too.data(), kBytes, cudaMemcpyDefault, b) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(back.data(), z.data(), kBytes, cudaMemcpyDefault, c) == cudaSuccess);
  for (const cudaStream_t stream : {cudaStream_t{a}, cudaStream_t{b}, cudaStream_t{c}})
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  std::vector<Interval> up;
  for (const Interval& interval : intervals()) {
    CHECK(interval.end - interval.begin >= std::chrono::milliseconds(4));
    if (interval.kind == WorkKind::kHostToDevice) up.push_back(interval);
  }
  REQUIRE(up.size() == 2);
  CHECK_FALSE(up[0].overlaps(up[1]));
}

}  // namespace
}  // namespace hearth::cudaemu
