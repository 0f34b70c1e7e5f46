// Sets sums over neurons to zero.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"

namespace hearth::cuda {

void clear_sums(const NeuronSums& sums, int n_tokens, int64_t n_cols, cudaStream_t stream) {
  const auto tokens = static_cast<size_t>(n_tokens), columns = static_cast<size_t>(n_cols);
  if (tokens == 0) return;
  check(cudaMemsetAsync(sums.poison, 0, tokens * sizeof *sums.poison, stream), "clearing sums over neurons");
  if (columns == 0) return;
  check(cudaMemsetAsync(sums.sums, 0, tokens * columns * sizeof *sums.sums, stream),
        "clearing sums over neurons");
}

}  // namespace hearth::cuda
