// Products of float32 matrices for training, by the engine's own kernels on a pool of threads.
//
// Every element is one sum in an order that its row length alone decides (kernels/cpu/matmul_kernels.h): the
// same bits for any number of threads. Matrices are row-major and packed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/thread_pool.h"

namespace hearth {

class FloatProducts {
 public:
  /// `pool` must outlive it. REQUIRES: this machine supports `isa`.
  FloatProducts(ThreadPool& pool, Isa isa);

  /// out [n_x, n_w] = x [n_x, n_cols] * w [n_w, n_cols]^T.
  void multiply(const float* x, int64_t n_x, const float* w, int64_t n_w, int64_t n_cols, float* out);

  /// out [n_cols, n_rows] = in [n_rows, n_cols]^T.
  void transpose(const float* in, int64_t n_rows, int64_t n_cols, float* out);

  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool& pool_;
  const MatmulKernels& kernels_;
};

}  // namespace hearth
