// Divides a list of matrix products among the threads: decides which rows and tokens belong to each piece of
// work.
//
// Products of one call may have different inputs, because the experts of a step are computed together, each
// for the tokens that chose it. All products are cut into units of about equal work, and threads take pieces
// of neighboring units. So a call needs one fork and join for any number of products. A sum is computed by a
// single thread, so no result depends on the cut. Owned by CpuBackend; called by the engine thread.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/threads/thread_pool.h"

namespace hearth {

/// A product and its input.
struct MatmulJob {
  Product product;
  const float* x = nullptr;              // [n_tokens, n_cols]; read for float weights only
  const std::byte* quantized = nullptr;  // [n_tokens] rows as in MatmulArgs; read for quantized weights only
  int n_tokens = 0;

  // The division of the job by MatmulJobs::run(): a unit is rows_per_unit rows for one part of the tokens.
  int64_t first_unit = 0;  // the number of the job's first unit
  int64_t rows_per_unit = 0;
  int64_t row_units = 0;    // number of units per part of the tokens
  int64_t part_tokens = 0;  // tokens per part; the last part may have fewer
};

class MatmulJobs {
 public:
  /// large_l1: see MatmulArgs::large_l1.
  MatmulJobs(ThreadPool& pool, const MatmulKernels& kernels, ActivationBits bits, bool large_l1)
      : pool_(pool), kernels_(kernels), bits_(bits), large_l1_(large_l1) {}

  /// Computes all jobs, in one parallel region. Their outputs do not overlap.
  void run(std::span<MatmulJob> jobs);

 private:
  void multiply(const MatmulJob& job, int64_t begin, int64_t end) const;
  void multiply_rows(const MatmulJob& job, int64_t first_token, int64_t begin, int64_t end) const;

  ThreadPool& pool_;
  const MatmulKernels& kernels_;
  ActivationBits bits_;
  bool large_l1_;
};

}  // namespace hearth
