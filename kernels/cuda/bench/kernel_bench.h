// Times the kernels for a model's shape one by one and compares them with their declared reads, writes and
// arithmetic, to show which of them are far from the machine's limits.
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
  std::vector<DType> types;               // weight types; those that the kernels do not support are skipped
  int n_prompt = 128;                     // tokens of a step of a prompt
  int context = 2048;                     // positions that attention reads; at least n_prompt
  double active = 0.12;                   // the share of neurons in lists
  size_t memory_bytes = size_t{1} << 30;  // of weights, keys and values, too many for any cache; less if less
                                          // memory is free
  double seconds = 2e-3;                  // of a run; a kernel is repeated until a run takes this long
  int n_runs = 5;                         // the fastest counts
  double spin_seconds = 0.5;  // device time of warm-up work, because an idle device has low clocks
  std::function<void(double)> progress = {};  // the fraction done; may throw, which ends the benchmark
};

struct KernelTime {
  std::string shape, kernel, size;  // size: for people, "11008 x 4096"
  std::string type;                 // of the weights; empty: none
  int n_tokens = 1;
  int n_launches = 1;  // launches per operation
  double seconds =
      0;  // from one repetition to the next, in a recorded graph: the time between two kernels is part of it
  KernelWork work;  // work of all its launches
};

/// Times all kernels of all shapes on device 0, in some seconds. Throws std::bad_alloc, CudaError,
/// std::runtime_error if there is no CUDA, and whatever `progress` throws.
std::vector<KernelTime> time_kernels(const KernelBenchOptions& options);

/// Instructions per second of device 0: multiprocessors times lanes times clock, as reported and not
/// measured; 0: not known. Throws CudaError, or std::runtime_error if there is no CUDA.
double instructions_per_s();

}  // namespace hearth::cuda
