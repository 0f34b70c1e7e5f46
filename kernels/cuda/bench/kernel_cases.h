// What kernel_bench.cpp times: each operation with arguments as a layer of a shape has them.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/bench/kernel_bench.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace hearth::cuda {

/// Large memory that kernels read as weights of any type, keys or values. Its bytes are random, but for the high ones of
/// 16-bit words: so every scale, in whatever place a format has it, is a small number, and no sum leaves its range.
class BenchWeights {
 public:
  /// Takes less than `bytes` where less is free. Throws std::bad_alloc if that is next to nothing.
  BenchWeights(size_t bytes, const Stream& stream);

  size_t bytes() const { return memory_.size(); }
  /// `n` bytes, others for each turn as long as there are others: what a kernel reads was not read just before.
  std::byte* at(int turn, size_t n) const;

 private:
  DeviceArray<std::byte> memory_;
};

/// One operation. Its launch() may be called with any turn, and any number of times.
struct KernelCase {
  std::string kernel, size, type;
  int n_tokens = 1;
  /// Enqueues it. declared: with lengths and places in memory that the host can read too, for WorkMeter::sum().
  std::function<void(int turn, bool declared)> launch;
};

/// The cases of a shape, and the memory that they use besides the weights.
class KernelCases {
 public:
  /// `weights` and `stream` must outlive it, and `stream` be waited for before it goes.
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
