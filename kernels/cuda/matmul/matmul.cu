// Chooses the kernel that computes a matrix product.
//
// Either memory or arithmetic limits the speed of a product of a matrix [n_rows, n_cols] with a few tokens
// (n). The kernel reads the weights once per 4 tokens; if the weights fit the L2 cache, only the first
// reading comes from memory. It also reads 2.4 bytes of activations per column and token, and writes 4 bytes
// per row and token. It executes n_rows * n_cols * n / 2 dp4a instructions, because a dp4a computes four byte
// products and each activation has two bytes, and about 5 float operations per span of 32 columns. So a
// single token takes 0.56 bytes (at 4.5 bits per weight) and half a dp4a per weight, and memory is the limit.
// A multiprocessor executes 64 dp4a per cycle, so arithmetic would become the limit at some 4 to 20 tokens.
// From 5 tokens on, tensor cores compute the products (matmul_batches.cu, matmul_prompts.cu).
#include <limits>

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cuda/matmul/blocks.cuh"
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/ops/kernel_class.h"
#include "kernels/cuda/ops/simulated_device.h"

namespace hearth::cuda {
namespace {

int64_t n_places(const MatmulOp& op) {
  return op.rows.ids == nullptr ? op.weight.n_rows : int64_t{*op.rows.n};
}

// Instructions of matmul_batches.cu per weight, for all tokens of the batch.
constexpr double kBatchInstructions = 9.4;

double activation_bytes(const MatmulOp& op) {
  const double of_activation = uses_quantized_activations(op.weight.dtype) ? 2 + 12.0 / 32 : 4;
  return of_activation * static_cast<double>(op.n_tokens * op.weight.n_cols);
}

KernelClass product_class(const MatmulOp& op) {
  return cuda::product_class(op.weight.dtype, op.rows.ids != nullptr);
}

/// Returns the work of a product that reads its activations once and its weights `passes` times, and writes
/// each result once.
KernelWork work_of(const MatmulOp& op, double passes) {
  const int64_t places = n_places(op);
  simulate_product({.weight = op.weight,
                    .ids = op.rows.ids,
                    .n_ids = places,
                    .n_tokens = op.n_tokens,
                    .out = op.out,
                    .out_stride = op.out_stride});
  const auto row = static_cast<double>(row_bytes(op.weight.dtype, op.weight.n_cols));
  return {.kind = product_class(op),
          .bytes = passes * static_cast<double>(places) * row + activation_bytes(op) +
                   (op.accumulate ? 2 : 1) * floats(op.n_tokens * places) +
                   (op.rows.ids == nullptr ? 0 : floats(places))};
}

}  // namespace

KernelWork product_work(const MatmulOp& op, int pass_tokens, double decode, double multiply) {
  const double passes = (op.n_tokens + pass_tokens - 1) / pass_tokens;
  KernelWork work = work_of(op, passes);
  work.instructions =
      static_cast<double>(n_places(op) * op.weight.n_cols) * (passes * decode + op.n_tokens * multiply);
  return work;
}

KernelWork product_work(std::span<const MatmulOp> ops, int pass_tokens, double decode, double multiply) {
  KernelWork all{.kind = product_class(ops.front())};
  for (const MatmulOp& op : ops) {
    const KernelWork work = product_work(op, pass_tokens, decode, multiply);
    all.bytes += work.bytes - (&op == &ops.front() ? 0 : activation_bytes(op));
    all.instructions += work.instructions;
  }
  return all;
}

namespace {

/// The number of tokens that tiles compute for a step of n_tokens tokens.
double tiled_tokens(int n_tokens, int tile_tokens) {
  return (n_tokens + tile_tokens - 1) / tile_tokens * tile_tokens;
}

}  // namespace

KernelWork tile_work(const MatmulOp& op, int tile_tokens) {
  KernelWork work = work_of(op, 1);
  work.kind = tile_class(op.weight.dtype);
  work.multiply_adds =
      static_cast<double>(n_places(op) * op.weight.n_cols) * tiled_tokens(op.n_tokens, tile_tokens);
  return work;
}

KernelWork batch_work(std::span<const MatmulOp> ops) {
  KernelWork all{.kind = KernelClass::kTiles};
  for (const MatmulOp& op : ops) {
    all.bytes += work_of(op, 1).bytes - (&op == &ops.front() ? 0 : activation_bytes(op));
    const auto weights = static_cast<double>(n_places(op) * op.weight.n_cols);
    all.multiply_adds += weights * kBatchTokens;
    all.instructions += weights * kBatchInstructions;
  }
  return all;
}

MatmulArgs args_of(const MatmulOp& op) {
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
  args.x_stride = op.weight.n_cols;
  args.quantized = op.quantized;
  args.n_tokens = op.n_tokens;
  args.out = op.out;
  args.out_stride = op.out_stride;
  args.accumulate = op.accumulate;
  return args;
}

ProductRun run_of(std::span<const MatmulOp> ops, int block_rows, int64_t& blocks) {
  const auto blocks_of = [&](const MatmulOp& op) { return (most_places(op) + block_rows - 1) / block_rows; };
  ProductRun run{.first = args_of(ops[0]), .others = {}};
  blocks = blocks_of(ops[0]);
  for (size_t i = 0; i < ProductRun::kOthers; ++i) {
    ProductRun::Other& other = run.others[i];
    other.first_block = std::numeric_limits<int64_t>::max();
    if (i + 1 >= ops.size()) continue;
    const MatmulArgs args = args_of(ops[i + 1]);
    other = {args.weights, args.row_bytes, args.n_rows, args.bias, args.out, args.out_stride, blocks};
    blocks += blocks_of(ops[i + 1]);
  }
  return run;
}

bool blocks_aligned(const Matrix& weight) {
  bool aligned = false;
  visit_device_block_type(weight.dtype,
                          [&]<class Block>() { aligned = rows_aligned(weight, kBlockAlign<Block>); });
  return aligned;
}

namespace {

bool is_empty(const MatmulOp& op) { return op.n_tokens == 0 || most_places(op) == 0; }

bool takes_batch(const MatmulOp& op) {
  return uses_quantized_activations(op.weight.dtype) && op.n_tokens > kFewTokens &&
         op.n_tokens <= kBatchTokens && blocks_aligned(op.weight);
}

bool takes_few(const MatmulOp& op) {
  return uses_quantized_activations(op.weight.dtype) && op.n_tokens <= kBatchTokens && !takes_batch(op);
}

/// Whether launch_few() or launch_batch() can compute both products in one launch.
bool are_alike(const MatmulOp& a, const MatmulOp& b) {
  const auto plain = [](const MatmulOp& op) {
    return (takes_few(op) || takes_batch(op)) && op.rows.ids == nullptr && !is_empty(op);
  };
  return plain(a) && plain(b) && a.weight.dtype == b.weight.dtype && a.weight.n_cols == b.weight.n_cols &&
         a.n_tokens == b.n_tokens && a.quantized.high == b.quantized.high && a.accumulate == b.accumulate &&
         blocks_aligned(a.weight) == blocks_aligned(b.weight);
}

}  // namespace

void matmul(const MatmulOp& op, cudaStream_t stream) {
  if (is_empty(op)) return;
  if (takes_few(op)) return launch_few({&op, 1}, stream);
  if (takes_batch(op)) return launch_batch({&op, 1}, stream);
  const MatmulArgs args = args_of(op);
  if (uses_quantized_activations(op.weight.dtype)) {
    launch_many(op, args, stream);
  } else {
    launch_float(op, args, stream);
  }
}

void matmul(std::span<const MatmulOp> ops, cudaStream_t stream) {
  while (!ops.empty()) {
    size_t n = 1;
    while (n < ops.size() && n < kMostProducts && are_alike(ops[0], ops[n])) ++n;
    if (n == 1) {
      matmul(ops[0], stream);
    } else {
      (takes_few(ops[0]) ? launch_few : launch_batch)(ops.first(n), stream);
    }
    ops = ops.subspan(n);
  }
}

}  // namespace hearth::cuda
