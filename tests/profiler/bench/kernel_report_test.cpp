// Tests what `bench --kernels` reports about a kernel's time.
#include "profiler/bench/kernel_report.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

namespace hearth {
namespace {

GpuProfile gpu() {
  GpuProfile gpu;
  gpu.name = "Model X";
  gpu.vram_bytes_per_s = 1e12;
  gpu.to_device_pinned_bytes_per_s = 25e9;
  gpu.from_device_pinned_bytes_per_s = 20e9;
  gpu.multiply_adds_per_s = 1e14;
  gpu.instructions_per_s = 2e13;
  return gpu;
}

cuda::KernelTime time_of(const cuda::KernelWork& work, double seconds) {
  cuda::KernelTime time;
  time.shape = "7b";
  time.kernel = "matmul";
  time.size = "11008 x 4096";
  time.type = "Q4_0";
  time.seconds = seconds;
  time.work = work;
  return time;
}

TEST_CASE("a kernel's bound is the slowest part of its work") {
  CHECK(bound_of({.bytes = 1e6}, gpu()).by == "memory");
  CHECK(bound_of({.bytes = 1e6}, gpu()).seconds == Approx(1e-6));
  CHECK(bound_of({.bytes = 1e6, .host_reads = 1e6}, gpu()).by == "PCIe");
  CHECK(bound_of({.bytes = 1e6, .host_reads = 1e6}, gpu()).seconds == Approx(40e-6));
  CHECK(bound_of({.bytes = 1e6, .host_reads = 1e6, .host_writes = 1e6}, gpu()).seconds == Approx(50e-6));
  CHECK(bound_of({.bytes = 1e6, .multiply_adds = 1e9}, gpu()).by == "tensor cores");
  CHECK(bound_of({.bytes = 1e6, .instructions = 1e9}, gpu()).by == "instructions");
  CHECK(bound_of({}, gpu()).by == "nothing");
  GpuProfile unknown = gpu();
  unknown.instructions_per_s = 0;
  CHECK(bound_of({.bytes = 1e6, .instructions = 1e9}, unknown).by == "memory");
}

TEST_CASE("kernels are printed in a table and as JSON") {
  const std::vector<cuda::KernelTime> times = {time_of({.bytes = 25e6}, 50e-6),
                                               time_of({.bytes = 1e6, .host_reads = 1e6}, 80e-6)};
  const std::string text = kernel_bench_text(gpu(), false, times);
  CHECK_THAT(text, ContainsSubstring("Model X: 1000 GB/s"));
  CHECK_THAT(text,
             ContainsSubstring(
                 "matmul                   11008 x 4096             Q4_0         1       50.00     500.0"
                 "      50 %  memory"));
  CHECK_THAT(text, ContainsSubstring("12.5      50 %  PCIe"));
  CHECK_THAT(kernel_bench_text(gpu(), true, times), ContainsSubstring("Model X, simulated: "));
  const auto json = nlohmann::json::parse(kernel_bench_json(gpu(), false, times));
  CHECK(json["kernels"].size() == 2);
  CHECK(json["kernels"][0]["share_of_bound"] == Approx(0.5));
  CHECK(json["kernels"][1]["bound_by"] == "PCIe");
  CHECK(json["kernels"][1]["bytes_per_s"] == Approx(12.5e9));
  CHECK(json["simulated"] == false);
}

}  // namespace
}  // namespace hearth
