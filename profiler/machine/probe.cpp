// Runs the measurements of a probe, and collects their results.
#include "profiler/machine/probe.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <new>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/bench/speed.h"
#include "kernels/cuda/cuda_backend.h"
#include "profiler/machine/host_speed.h"
#include "profiler/machine/prompt_rate.h"

namespace hearth {
namespace {

/// Counts measurements, reports progress, and checks whether the probe was stopped.
class Measurements {
 public:
  Measurements(const ProbeOptions& options, size_t n_all) : options_(options), n_all_(n_all) {}

  /// Must be called before each measurement. Returns false if the probe was stopped.
  bool next(std::string_view what) {
    if (options_.stop.stop_requested()) return false;
    if (options_.progress)
      options_.progress(static_cast<double>(n_done_) / static_cast<double>(n_all_), what);
    ++n_done_;
    return true;
  }

 private:
  const ProbeOptions& options_;
  size_t n_all_, n_done_ = 0;
};

// The numbers of measurements that probe_host() and probe_gpu() always make. probe_host() also makes one
// measurement for each number of threads and, if there are several NUMA nodes, one for each node.
constexpr size_t kHostMeasurements = 3, kGpuMeasurements = 3;

bool probe_host(const Hardware& hardware, Measurements& measurements, Probe& probe) {
  // 1. Fill in facts that need no measurement.
  HostProfile& host = probe.machine.host;
  host.cpu = hardware.cpu;
  host.n_cores = hardware.n_cores;
  host.n_numa_nodes = static_cast<int>(hardware.numa_nodes.size());
  host.ram_bytes = static_cast<int64_t>(hardware.ram_bytes);

  // 2. Measure each NUMA node, before allocating the memory that all nodes share.
  if (hardware.numa_nodes.size() > 1) {
    for (const std::vector<int>& cpus : hardware.numa_nodes) {
      if (!measurements.next("memory of a NUMA node")) return false;
      host.numa_read_bytes_per_s.push_back(node_read_rate(cpus));
    }
  }

  // 3. Measure reading, scattered reading and multiplying.
  if (!measurements.next("memory")) return false;
  HostSpeed speed(hardware.n_cores, hardware.isa);
  if (speed.short_of_memory()) {
    probe.complete = false;
    probe.notes.emplace_back(
        "So little memory is free that most reads came from the caches, so the read rates are too high. Free "
        "some memory and probe again.");
  }
  for (const int n_threads : thread_counts(hardware.n_cores)) {
    if (!measurements.next("memory")) return false;
    const PassRates rates = speed.read_rate(n_threads);
    host.ram_read.push_back({.n_threads = n_threads,
                             .bytes_per_s = rates.median,
                             .slowest_bytes_per_s = rates.slowest,
                             .fastest_bytes_per_s = rates.fastest});
  }
  if (!measurements.next("rows of neurons")) return false;
  host.sparse_row_share = std::min(1.0, speed.scattered_rate() / host.ram_read.back().bytes_per_s);
  if (!measurements.next("arithmetic")) return false;
  host.multiply_adds_per_s = speed.multiply_adds_per_s();
  return true;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double gpu_multiply_adds_per_s(const Hardware& hardware) {
  CpuBackend cpu(1, hardware.isa);  // needed to construct the device, but computes nothing
  const StepBounds bounds = prompt_rate_bounds();
  const std::unique_ptr<ComputeDevice> device = cuda::make_device(
      cpu, {.budget_bytes = cuda::scratch_bytes(bounds) + prompt_rate_bytes(), .graphs = false});
  device->reserve(bounds);
  return prompt_rate(device->backend(), wall_seconds);
}

bool probe_gpu(const Hardware& hardware, Measurements& measurements, GpuProfile& gpu) {
  gpu.name = hardware.gpu->name;
  gpu.compute_major = hardware.gpu->compute_capability.major;
  gpu.compute_minor = hardware.gpu->compute_capability.minor;
  gpu.vram_bytes = static_cast<int64_t>(hardware.gpu->total_bytes);

  if (!measurements.next("the GPU's memory and PCIe")) return false;
  const cuda::Bandwidth bandwidth = cuda::measure_bandwidth(cuda::BandwidthOf::kEverything);
  gpu.vram_bytes_per_s = bandwidth.vram_bytes_per_s;
  gpu.to_device_pinned_bytes_per_s = bandwidth.to_device_bytes_per_s;
  gpu.to_device_pageable_bytes_per_s = bandwidth.pageable_to_device_bytes_per_s;
  gpu.from_device_pinned_bytes_per_s = bandwidth.from_device_bytes_per_s;
  gpu.from_device_pageable_bytes_per_s = bandwidth.pageable_from_device_bytes_per_s;

  if (!measurements.next("the GPU's latencies")) return false;
  const cuda::Latency latency = cuda::measure_latency();
  gpu.launch_s = latency.launch_s;
  gpu.round_trip_s = latency.round_trip_s;

  if (!measurements.next("the GPU's arithmetic")) return false;
  gpu.multiply_adds_per_s = gpu_multiply_adds_per_s(hardware);
  return true;
}

}  // namespace

std::vector<int> thread_counts(int n_cores) {
  std::vector<int> counts;
  for (int n = 1; n < n_cores; n *= 2) counts.push_back(n);
  counts.push_back(n_cores);
  return counts;
}

std::optional<Probe> probe_machine(const Hardware& hardware, const ProbeOptions& options) {
  const size_t n_nodes = hardware.numa_nodes.size() > 1 ? hardware.numa_nodes.size() : 0;
  Measurements measurements(options, kHostMeasurements + thread_counts(hardware.n_cores).size() + n_nodes +
                                         (hardware.gpu ? kGpuMeasurements : 0));
  Probe probe;
  probe.machine.name = hardware.cpu + (hardware.gpu ? " and " + hardware.gpu->name : "");
  if (!probe_host(hardware, measurements, probe)) return std::nullopt;
  if (!hardware.gpu) return probe;
  try {
    GpuProfile gpu;
    if (!probe_gpu(hardware, measurements, gpu)) return std::nullopt;
    probe.machine.gpu = gpu;
  } catch (const std::bad_alloc&) {
    probe.complete = false;
    probe.notes.push_back("The GPU (" + hardware.gpu->name +
                          ") has too little free memory to be measured, and is left out; end the programs "
                          "that use it and probe again.");
  } catch (const std::exception& error) {
    probe.complete = false;
    probe.notes.push_back("The GPU (" + hardware.gpu->name +
                          ") could not be measured, and is left out: " + error.what());
  }
  return probe;
}

}  // namespace hearth
