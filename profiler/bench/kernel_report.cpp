// Computes kernels' bounds, and formats the report of `bench --kernels`.
#include "profiler/bench/kernel_report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

double time_for(double amount, double per_second) { return per_second > 0 ? amount / per_second : 0; }

/// Returns the achieved bytes per second. If PCIe bounds the work, these are bytes over PCIe, otherwise bytes
/// of the GPU's memory.
double bytes_per_s(const cuda::KernelTime& time, const KernelBound& bound) {
  const double bytes =
      bound.by == "PCIe" ? std::max(time.work.host_reads, time.work.host_writes) : time.work.bytes;
  return bytes / time.seconds;
}

}  // namespace

KernelBound bound_of(const cuda::KernelWork& work, const GpuProfile& gpu) {
  const KernelBound bounds[] = {
      {time_for(work.bytes, gpu.vram_bytes_per_s), "memory"},
      {std::max(time_for(work.host_reads, gpu.to_device_pinned_bytes_per_s),
                time_for(work.host_writes, gpu.from_device_pinned_bytes_per_s)),
       "PCIe"},
      {time_for(work.multiply_adds, gpu.multiply_adds_per_s), "tensor cores"},
      {time_for(work.instructions, gpu.instructions_per_s), "instructions"},
  };
  KernelBound least{0, "nothing"};
  for (const KernelBound& bound : bounds) {
    if (bound.seconds > least.seconds) least = bound;
  }
  return least;
}

std::string kernel_bench_text(const GpuProfile& gpu, bool simulated,
                              const std::vector<cuda::KernelTime>& times) {
  std::string text = fmt::format(
      "{}{}: {:.0f} GB/s, PCIe {:.1f} and {:.1f} GB/s, {:.3g} T multiply-adds/s, {:.3g} T instructions/s\n",
      gpu.name, simulated ? ", simulated" : "", gpu.vram_bytes_per_s / 1e9,
      gpu.to_device_pinned_bytes_per_s / 1e9, gpu.from_device_pinned_bytes_per_s / 1e9,
      gpu.multiply_adds_per_s / 1e12, gpu.instructions_per_s / 1e12);
  std::string shape;
  for (const cuda::KernelTime& time : times) {
    if (time.shape != shape) {
      shape = time.shape;
      text += fmt::format("\n{}\n{:<24} {:<24} {:<7} {:>6} {:>11} {:>9} {:>9}  {}\n", shape, "kernel", "size",
                          "type", "tokens", "us", "GB/s", "of bound", "bound by");
    }
    const KernelBound bound = bound_of(time.work, gpu);
    text += fmt::format("{:<24} {:<24} {:<7} {:>6} {:>11.2f} {:>9.1f} {:>7.0f} %  {}\n", time.kernel,
                        time.size, time.type, time.n_tokens, 1e6 * time.seconds,
                        bytes_per_s(time, bound) / 1e9, 100 * bound.seconds / time.seconds, bound.by);
  }
  return text;
}

std::string kernel_bench_json(const GpuProfile& gpu, bool simulated,
                              const std::vector<cuda::KernelTime>& times) {
  Json kernels = Json::array();
  for (const cuda::KernelTime& time : times) {
    const KernelBound bound = bound_of(time.work, gpu);
    kernels.push_back({{"shape", time.shape},
                       {"kernel", time.kernel},
                       {"size", time.size},
                       {"type", time.type.empty() ? Json(nullptr) : Json(time.type)},
                       {"tokens", time.n_tokens},
                       {"class", cuda::kKernelClassNames[static_cast<size_t>(time.work.kind)]},
                       {"launches", time.n_launches},
                       {"seconds", time.seconds},
                       {"bytes", time.work.bytes},
                       {"host_reads", time.work.host_reads},
                       {"host_writes", time.work.host_writes},
                       {"multiply_adds", time.work.multiply_adds},
                       {"instructions", time.work.instructions},
                       {"bytes_per_s", bytes_per_s(time, bound)},
                       {"bound_seconds", bound.seconds},
                       {"bound_by", bound.by},
                       {"share_of_bound", bound.seconds / time.seconds}});
  }
  const Json json = {{"gpu", gpu.name},
                     {"simulated", simulated},
                     {"vram_bytes_per_s", gpu.vram_bytes_per_s},
                     {"to_device_bytes_per_s", gpu.to_device_pinned_bytes_per_s},
                     {"from_device_bytes_per_s", gpu.from_device_pinned_bytes_per_s},
                     {"multiply_adds_per_s", gpu.multiply_adds_per_s},
                     {"instructions_per_s", gpu.instructions_per_s},
                     {"kernels", kernels}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
