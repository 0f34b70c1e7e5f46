// Times the kernels one by one for the layer sizes of a model. Each time comes with the kernel's declared
// reads, writes and arithmetic, which shows how far the kernel is from the machine's limits.
//
// Plain C++; a build without CUDA links no_cuda.cpp. hearth-profiler's `bench --kernels` calls it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/ops/kernel_work.h"
#include "kernels/dtype.h"

namespace hearth::cuda {

/// The sizes of one layer of a model.
struct KernelShape {
  std::string name;
  int64_t d_model = 0, d_ff = 0;
  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
};

struct KernelBenchOptions {
  std::vector<KernelShape> shapes;
  std::vector<DType> types;  // weight types; unsupported types are skipped
  int n_prompt = 128;        // tokens of a prefill step
  int context = 2048;        // positions that attention reads; at least n_prompt
  double active = 0.12;      // fraction of the neurons that lists contain
  // Memory for weights, keys and values. It is larger than any cache, and is reduced if less memory is free.
  size_t memory_bytes = size_t{1} << 30;
  double seconds = 2e-3;  // minimum duration of a run; a kernel is repeated until a run takes this long
  int n_runs = 5;         // runs per kernel; the fastest one counts
  // Device time of the warm-up, which is necessary because an idle device lowers its clocks.
  double spin_seconds = 0.5;
  std::function<void(double)> progress = {};  // receives the fraction done; may throw to end the benchmark
};

struct KernelTime {
  std::string shape, kernel, size;  // size: for people, "11008 x 4096"
  std::string type;                 // of the weights; empty: none
  int n_tokens = 1;
  int n_launches = 1;  // launches per operation
  // The time from one repetition to the next in a recorded graph, including the gaps between kernels.
  double seconds = 0;
  KernelWork work;  // the work of all launches of one operation
};

/// Times all kernels of all shapes on device 0, which takes some seconds. Throws std::bad_alloc, CudaError,
/// std::runtime_error if there is no CUDA, and whatever `progress` throws.
std::vector<KernelTime> time_kernels(const KernelBenchOptions& options);

/// The peak instructions per second of device 0, calculated from its reported multiprocessors, lanes and
/// clock, not measured; 0 if unknown. Throws CudaError, or std::runtime_error if there is no CUDA.
double instructions_per_s();

}  // namespace hearth::cuda
