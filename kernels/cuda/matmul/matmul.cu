// Matrix products: chooses the kernel.
//
// Bounds of few tokens, for a matrix of n_rows x n_cols and n tokens. Bytes: the weights once for every 4
// tokens (all but the first time from the L2 cache if they fit), the activations 2.4 bytes a column and
// token, out 4 bytes a row and token. Operations: n_rows * n_cols * n / 2 instructions of four byte products
// (dp4a), one for each byte plane, and about 5 float operations for each span of 32 columns. So at 4.5 bits a
// weight one token takes 0.56 bytes and half a dp4a a weight: bound by memory. At 64 dp4a a cycle and
// multiprocessor the products take over at some 4 to 20 tokens, by how much memory a device has for its
// arithmetic. Bounds of many tokens, on tensor cores: matmul_many.cu.
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cuda/matmul/matmul_args.cuh"

namespace hearth::cuda {
namespace {

// Up to this many tokens, weights are read again for every 4 tokens; the other kernel always loads a tile of
// 64 tokens.
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
  args.device_rows = op.device_rows;
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
