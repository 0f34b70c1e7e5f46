// How fast the GPU reads its memory, and takes bytes from the host: what a benchmark holds its speed against.
//
// Plain C++; a build without CUDA links no_cuda.cpp.
#pragma once

namespace hearth::cuda {

struct Bandwidth {
  double vram_bytes_per_s = 0;       // read and written by copies within the device's memory
  double to_device_bytes_per_s = 0;  // by copies from pinned host memory: PCIe's
  // Of BandwidthOf::kEverything, else 0. Pageable memory the driver copies itself first, to where the device
  // can read it.
  double from_device_bytes_per_s = 0;
  double pageable_to_device_bytes_per_s = 0;
  double pageable_from_device_bytes_per_s = 0;
};

enum class BandwidthOf { kVramAndPinned, kEverything };

/// Measures device 0 in some tenths of a second, with a few hundred MiB of its memory and less if it has not
/// as much free; gives all back. Counted by the device's own events, the best of a few passes; what concerns
/// pageable memory by the host's clock. Throws std::bad_alloc where not even 16 MiB are free, or as little
/// host memory, CudaError, or std::runtime_error where there is no CUDA.
Bandwidth measure_bandwidth(BandwidthOf what = BandwidthOf::kVramAndPinned);

}  // namespace hearth::cuda
