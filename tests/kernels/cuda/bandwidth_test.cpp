// Measuring the bandwidths and latencies of emulated GPUs: the bus bounds them, the buffers fit the free
// memory, and all memory is released. Does not test speeds.
#include "kernels/cuda/bench/speed.h"

#include <cmath>

#include "kernels/cuda/runtime/cuda_error.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

using namespace hearth::cuda;
namespace cudaemu = hearth::cudaemu;

namespace {

/// An emulated machine; the previous one is restored at the end.
class MachineWithVram {
 public:
  explicit MachineWithVram(size_t vram_bytes) : before_(cudaemu::config()) {
    cudaemu::config().vram_bytes = vram_bytes;
    cudaemu::reset_stats();
  }
  ~MachineWithVram() { cudaemu::config() = before_; }
  MachineWithVram(const MachineWithVram&) = delete;
  MachineWithVram& operator=(const MachineWithVram&) = delete;

 private:
  cudaemu::Config before_;
};

}  // namespace

TEST_CASE("bandwidth: the measured rate does not exceed the bus's, and all memory is freed") {
  const MachineWithVram machine(size_t{64} << 20);
  cudaemu::config().bus_mb_per_s = 4000;
  const Bandwidth found = measure_bandwidth();
  CHECK(found.to_device_bytes_per_s > 0);
  CHECK(found.to_device_bytes_per_s <= 4096.0 * (1 << 20));
  CHECK(found.vram_bytes_per_s > 0);
  CHECK(std::isfinite(found.vram_bytes_per_s));
  const cudaemu::Stats stats = cudaemu::stats();
  CHECK(stats.vram_used == 0);
  CHECK(stats.pinned_used == 0);
  CHECK(stats.vram_peak > size_t{16} << 20);
  CHECK(stats.pageable_async == 0);
  CHECK(stats.default_stream == 0);
}

TEST_CASE(
    "bandwidth: both directions are measured, pinned and pageable; only pageable copies are synchronous") {
  const MachineWithVram machine(size_t{64} << 20);
  cudaemu::config().bus_mb_per_s = 4000;
  const Bandwidth found = measure_bandwidth(BandwidthOf::kEverything);
  for (const double rate : {found.to_device_bytes_per_s, found.from_device_bytes_per_s,
                            found.pageable_to_device_bytes_per_s, found.pageable_from_device_bytes_per_s}) {
    CHECK(rate > 0);
    CHECK(rate <= 4096.0 * (1 << 20));
  }
  const cudaemu::Stats stats = cudaemu::stats();
  CHECK(stats.vram_used == 0);
  CHECK(stats.pinned_used == 0);
  CHECK(stats.pageable_async == 2 * 5);  // passes
  CHECK(stats.default_stream == 0);
}

TEST_CASE("latency: kernels in graphs and hand-overs are timed, and nothing is leaked") {
  const MachineWithVram machine(size_t{64} << 20);
  const Latency found = measure_latency();
  CHECK(found.launch_s > 0);
  CHECK(found.round_trip_s > 0);
  CHECK(found.round_trip_s < 60);
  const cudaemu::Stats stats = cudaemu::stats();
  CHECK(stats.graph_launches == 5 * (2 + 32));  // passes, with two graphs and the round trips
  CHECK(stats.graph_kernels == 5 * (16 + 80 + 32 * 2));
  CHECK(stats.vram_used == 0);
  CHECK(stats.pinned_used == 0);
  CHECK(stats.pageable_async == 0);
  CHECK(stats.default_stream == 0);
}

TEST_CASE("latency: every failing call is reported, and nothing is leaked") {
  for (const char* api :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphLaunch",
        "cudaMalloc", "cudaHostAlloc", "cudaEventRecord", "cudaEventElapsedTime", "launch", "kernel",
        "cudaMemsetAsync", "cudaStreamSynchronize"}) {
    CAPTURE(api);
    const MachineWithVram machine(size_t{64} << 20);
    for (const int n_good : {0, 1}) {
      cudaemu::fail_next(api, n_good, cudaErrorUnknown);
      CHECK_THROWS_AS(measure_latency(), CudaError);
      cudaemu::repair_device();
      CHECK(cudaemu::stats().vram_used == 0);
      CHECK(cudaemu::stats().pinned_used == 0);
    }
  }
  CHECK(measure_latency().launch_s > 0);
}

TEST_CASE("bandwidth: a device with less than 16 MiB free is reported as such, and works afterward") {
  const MachineWithVram machine(size_t{12} << 20);
  CHECK_THROWS_AS(measure_bandwidth(), std::bad_alloc);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(cudaemu::stats().vram_used == 0);
}

TEST_CASE("bandwidth: a failing device is reported") {
  const MachineWithVram machine(size_t{64} << 20);
  cudaemu::fail_next("cudaEventElapsedTime", 0, cudaErrorUnknown);
  CHECK_THROWS_AS(measure_bandwidth(), CudaError);
  CHECK(cudaemu::stats().vram_used == 0);
}
