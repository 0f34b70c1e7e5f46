// Matrix products: which kernel does which.
//
// Bounds, for a matrix of n_rows x n_cols and n tokens. Bytes: the weights once (matmul_few.cu: once for
// every 4 tokens, from the second on out of the L2 cache; matmul_many.cu: once for every 32), the activations
// 2.25 bytes a column and token, out 4 bytes a row and token. Operations: n_rows * n_cols * n / 2
// byte-product instructions (dp4a: four columns of one of the two byte planes), and about 5 float operations
// for each span of 32 columns. So one token is bound by the weights' bytes (4.5 bits a weight take 0.56 bytes
// and half a dp4a) and from about 16 tokens on the byte products are what counts.
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cuda/matmul_args.cuh"

namespace hearth::cuda {
namespace {

// Up to here weights are read anew for every 4 tokens; a tile of 32 that is half empty costs more.
constexpr int kFewTokens = 16;

}  // namespace

void matmul(const MatmulOp& op, cudaStream_t stream) {
  if (op.n_tokens == 0 || most_places(op) == 0) return;
  MatmulArgs args{};
  args.weights = reinterpret_cast<const uint8_t*>(op.weight.data);
  args.row_bytes = static_cast<int64_t>(op.weight.stride_bytes());
  args.n_rows = op.weight.n_rows;
  args.n_cols = op.weight.n_cols;
  args.ids = op.rows.ids;
  args.n_ids = op.rows.n;
  args.slots = op.slots;
  args.bias = op.bias;
  args.x = op.x;
  args.quantized = op.quantized;
  args.n_tokens = op.n_tokens;
  args.out = op.out;
  args.out_stride = op.out_stride;
  args.accumulate = op.accumulate;
  if (!uses_quantized_activations(op.weight.dtype)) {
    launch_float(op, args, stream);
  } else if (op.n_tokens <= kFewTokens) {
    launch_few(op, args, stream);
  } else {
    launch_many(op, args, stream);
  }
}

}  // namespace hearth::cuda
