// How fast the GPU reads its memory, and takes bytes from the host: what a benchmark holds its speed against.
//
// Plain C++; a build without CUDA links no_cuda.cpp.
#pragma once

namespace hearth::cuda {

struct Bandwidth {
  double vram_bytes_per_s = 0;       // read and written by copies within the device's memory
  double to_device_bytes_per_s = 0;  // by copies from pinned host memory: PCIe's
};

/// Measures device 0 in some tenths of a second, with a few hundred MiB of its memory and less if it has not
/// as much free; gives all back. Counted by the device's own events, the best of a few passes. Throws
/// std::bad_alloc where not even 16 MiB are free, CudaError, or std::runtime_error where there is no CUDA.
Bandwidth measure_bandwidth();

}  // namespace hearth::cuda
