// Measures the GPU: the bandwidth of its memory and of copies from the host, and the overhead of a kernel
// launch and of a hand-over. Benchmarks compare their results with the bandwidth. A plan splits a layer's
// neurons between GPU and CPU only if the split saves more time than the overhead.
//
// Plain C++; a build without CUDA links no_cuda.cpp.
#pragma once

namespace hearth::cuda {

struct Bandwidth {
  double vram_bytes_per_s = 0;       // bytes read and written by copies within the device's memory
  double to_device_bytes_per_s = 0;  // speed of copies from pinned host memory, which PCIe limits
  // The following speeds are measured only with BandwidthOf::kEverything, and are 0 otherwise. Copies of
  // pageable memory are slow because the driver first copies it to memory that the device can read.
  double from_device_bytes_per_s = 0;
  double pageable_to_device_bytes_per_s = 0;
  double pageable_from_device_bytes_per_s = 0;
};

enum class BandwidthOf { kVramAndPinned, kEverything };

/// Measures device 0, which takes some tenths of a second. Temporarily allocates a few hundred MiB of device
/// memory, or less if less is free. Reports the best of a few passes, timed with the device's events, or with
/// the host's clock for pageable memory. Throws std::bad_alloc if less than 16 MiB of device or host memory
/// are free, CudaError, or std::runtime_error if there is no CUDA.
Bandwidth measure_bandwidth(BandwidthOf what = BandwidthOf::kVramAndPinned);

struct Latency {
  /// The time from the start of a nearly empty kernel to the start of the next kernel in a recorded graph,
  /// which is how decode steps run.
  double launch_s = 0;
  /// The fixed cost of a layer whose neurons are split between GPU and CPU, without the work for the neurons.
  /// It is the time of one round trip: a graph runs a small kernel and hands a token's activations over to
  /// host memory, and the host sees them and launches the next graph at once.
  double round_trip_s = 0;
};

/// Measures device 0, which takes some milliseconds and almost no memory. Reports the best of a few passes.
/// Throws CudaError, std::bad_alloc, or std::runtime_error if there is no CUDA.
Latency measure_latency();

}  // namespace hearth::cuda
