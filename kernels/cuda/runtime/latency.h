// Measures what a kernel launch and a hand-over cost besides the work itself. A plan shares a layer's neurons
// only if that saves more time than these cost.
//
// Plain C++; a build without CUDA links no_cuda.cpp.
#pragma once

namespace hearth::cuda {

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
