// The operations that kernel_bench.cpp times, each with the arguments that a layer of a shape has.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/bench/kernel_bench.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace hearth::cuda {

/// Large memory that kernels read as weights of any type, keys or values. Its bytes are random, except for
/// the high bytes of 16-bit words: so every scale, wherever a format stores it, is a small number, and no sum
/// leaves its range.
class BenchWeights {
 public:
  /// Takes less than `bytes` if less is free. Throws std::bad_alloc if almost nothing is free.
  BenchWeights(size_t bytes, const Stream& stream);

  size_t bytes() const { return memory_.size(); }
  /// Returns `n` bytes, different ones for each turn as far as possible, so that kernels read memory that was
  /// not read just before.
  std::byte* at(int turn, size_t n) const;

 private:
  DeviceArray<std::byte> memory_;
};

/// One operation. Its launch() may be called with any turn, and any number of times.
struct KernelCase {
  std::string kernel, size, type;
  int n_tokens = 1;
  /// Enqueues the operation. declared: list lengths and token positions are in memory that the host can read
  /// too, for WorkMeter::sum().
  std::function<void(int turn, bool declared)> launch;
};

/// The cases of a shape, and the memory that they use besides the weights.
class KernelCases {
 public:
  /// `weights` and `stream` must outlive it. Wait for `stream` before destroying it.
  KernelCases(const KernelShape& shape, const KernelBenchOptions& options, const BenchWeights& weights,
              const Stream& stream);
  ~KernelCases();

  const std::vector<KernelCase>& all() const { return cases_; }

 private:
  struct Arrays;

  void add_rows(int n_tokens);
  void add_products(DType type);
  void add_heads(DType type);
  void add_neurons();
  void add_attention(int n_tokens);
  void add_sharing();

  const KernelShape shape_;
  const KernelBenchOptions& options_;
  const BenchWeights& weights_;
  const Stream& stream_;
  std::unique_ptr<Arrays> arrays_;
  std::vector<KernelCase> cases_;
};

}  // namespace hearth::cuda
