// Measures the GPU: the bandwidth of its memory and of copies from the host, and the overhead of a kernel
// launch and of a hand-over. Benchmarks compare with the bandwidth; a plan shares a layer's neurons only if
// that saves more time than the overhead costs.
//
// Plain C++; a build without CUDA links no_cuda.cpp.
#pragma once

namespace hearth::cuda {

struct Bandwidth {
  double vram_bytes_per_s = 0;       // bytes read and written by copies within the device's memory
  double to_device_bytes_per_s = 0;  // by copies from pinned host memory: the speed of PCIe
  // Measured only with BandwidthOf::kEverything, else 0. The driver first copies pageable memory to memory
  // that the device can read.
  double from_device_bytes_per_s = 0;
  double pageable_to_device_bytes_per_s = 0;
  double pageable_from_device_bytes_per_s = 0;
};

enum class BandwidthOf { kVramAndPinned, kEverything };

/// Measures device 0 in some tenths of a second, with a few hundred MiB of its memory, or less if less is
/// free, and frees it. The best of a few passes counts, timed by the device's events; copies of pageable
/// memory are timed by the host's clock. Throws std::bad_alloc if less than 16 MiB of device or host memory
/// are free, CudaError, or std::runtime_error where there is no CUDA.
Bandwidth measure_bandwidth(BandwidthOf what = BandwidthOf::kVramAndPinned);

struct Latency {
  /// From the start of a nearly empty kernel to the start of the next one in a recorded graph. Decoding steps
  /// are recorded too.
  double launch_s = 0;
  /// The cost of a layer whose neurons the GPU and the CPU share, apart from its neurons: a graph of a small
  /// kernel and the hand-over of a token to host memory; the host sees it and launches the next graph at
  /// once.
  double round_trip_s = 0;
};

/// Measures device 0 in some milliseconds: the best of a few passes. Takes next to no memory. Throws
/// CudaError, std::bad_alloc, or std::runtime_error where there is no CUDA.
Latency measure_latency();

}  // namespace hearth::cuda
