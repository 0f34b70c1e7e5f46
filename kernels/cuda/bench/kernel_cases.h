// The operations that kernel_bench.cpp times, with the arguments that they have in a layer of a given shape.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/bench/kernel_bench.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace hearth::cuda {

/// A large block of device memory that kernels read as weights of any type, or as keys or values. Its bytes
/// are random, except that the high byte of every 16-bit word is fixed. So every scale is a small number, no
/// matter where a format stores it, and no sum overflows.
class BenchWeights {
 public:
  /// Allocates `bytes`, or less if less memory is free. Throws std::bad_alloc if almost no memory is free.
  BenchWeights(size_t bytes, const Stream& stream);

  size_t bytes() const { return memory_.size(); }
  /// Returns the address of `n` bytes. Successive turns get different addresses where possible, so that
  /// kernels do not read memory that was read just before.
  std::byte* at(int turn, size_t n) const;

 private:
  DeviceArray<std::byte> memory_;
};

/// One operation. Its launch() may be called any number of times, with any `turn` (see BenchWeights::at()).
struct KernelCase {
  std::string kernel, size, type;
  int n_tokens = 1;
  /// Enqueues the operation. declared: whether list lengths and token positions are passed in memory that the
  /// host can also read; WorkMeter::sum() needs this.
  std::function<void(int turn, bool declared)> launch;
};

/// The cases for one shape, and the memory that they use in addition to the weights.
class KernelCases {
 public:
  /// `weights` and `stream` must outlive this object. Wait for `stream` before destroying this object.
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
  void add_recurrent(int n_tokens);
  void add_sharing();

  const KernelShape shape_;
  const KernelBenchOptions& options_;
  const BenchWeights& weights_;
  const Stream& stream_;
  std::unique_ptr<Arrays> arrays_;
  std::vector<KernelCase> cases_;
};

}  // namespace hearth::cuda
