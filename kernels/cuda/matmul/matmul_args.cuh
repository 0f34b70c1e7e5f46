// The launch arguments of the kernels in matmul_few.cu, matmul_batches.cu, matmul_prompts.cu and
// matmul_floats.cu, and the code that stores their results.
#pragma once

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// The kernel arguments of a MatmulOp. A place is the index of an output column. Without a row list, column i
/// is the product with matrix row i. With a list, it is the product with matrix row ids[i].
struct MatmulArgs {
  const uint8_t* weights;
  int64_t row_bytes;  // from the start of one row to the start of the next
  int64_t n_rows;
  int64_t n_cols;
  const int32_t* ids;  // null: all rows
  const int32_t* n_ids;
  const int32_t* device_rows;  // row r is row device_rows[r] of the matrix, or row r if null
  const float* bias;
  const float* x;
  int64_t x_stride;
  QuantizedActivations quantized;
  int n_tokens;
  float* out;
  int64_t out_stride;
  bool accumulate;

  __device__ int64_t n_places() const { return ids == nullptr ? n_rows : int64_t{*n_ids}; }
  __device__ int64_t row_at(int64_t place) const { return ids == nullptr ? place : int64_t{ids[place]}; }
  __device__ const uint8_t* row_begin(int64_t place) const {
    const int64_t row = row_at(place);
    return weights + (device_rows == nullptr ? row : int64_t{device_rows[row]}) * row_bytes;
  }
  __device__ void store(int token, int64_t place, float value, int64_t to_head = 0) const {
    if (bias != nullptr) value = __fadd_rn(value, bias[row_at(place)]);
    float& to = out[to_head + token * out_stride + place];
    to = accumulate ? __fadd_rn(to, value) : value;
  }
};

/// The distances from one head's arrays to the next head's, for launches in which blockIdx.z is the head.
/// Kernels add a head's distance where they compute an address. If they changed MatmulArgs instead, the
/// changed values would occupy registers during the whole kernel.
struct HeadSteps {
  int64_t weights = 0;     // bytes
  int64_t x = 0, out = 0;  // floats

  __device__ int64_t to_weights() const { return static_cast<int64_t>(blockIdx.z) * weights; }
  __device__ int64_t to_x() const { return static_cast<int64_t>(blockIdx.z) * x; }
  __device__ int64_t to_out() const { return static_cast<int64_t>(blockIdx.z) * out; }
};

/// Several products with the same x that share a launch. A thread block computes a part of one of them.
struct ProductRun {
  MatmulArgs first;
  /// The arguments in which a later product differs from the first one.
  struct Other {
    const uint8_t* weights;
    int64_t row_bytes;
    int64_t n_rows;
    const float* bias;
    float* out;
    int64_t out_stride;
    int64_t first_block;
  };
  static constexpr int kOthers = static_cast<int>(kMostProducts) - 1;
  Other others[kOthers];  // if there are fewer products, the first_block of each missing one lies beyond the
                          // grid

  /// Returns the arguments of the product that a thread block computes. The parameter must hold the index of
  /// the thread block in the grid. The function replaces it by the index among the thread blocks of that
  /// product.
  __device__ MatmulArgs of_block(int64_t& block) const {
    MatmulArgs args = first;
    int64_t begin = 0;
    GPU_UNROLL
    for (int i = 0; i < kOthers; ++i) {
      const Other& other = others[i];
      if (block < other.first_block) continue;
      args.weights = other.weights;
      args.row_bytes = other.row_bytes;
      args.n_rows = other.n_rows;
      args.bias = other.bias;
      args.out = other.out;
      args.out_stride = other.out_stride;
      begin = other.first_block;
    }
    block -= begin;
    return args;
  }
};

MatmulArgs args_of(const MatmulOp& op);
/// Converts the products to the arguments of one launch, in which each thread block computes block_rows rows
/// of a product. `n` gets the number of thread blocks that all products take together. REQUIRES: 1 to
/// kMostProducts products.
ProductRun run_of(std::span<const MatmulOp> ops, int block_rows, int64_t& n);

/// The number of places that a grid must cover. With a row list, this is the list's maximum length, because
/// only the device knows the actual length.
inline int64_t most_places(const MatmulOp& op) {
  return op.rows.ids == nullptr ? op.weight.n_rows : op.rows.max;
}

/// Whether every row begins at a multiple of n bytes.
inline bool rows_aligned(const Matrix& weight, size_t n) {
  return reinterpret_cast<uintptr_t>(weight.data) % n == 0 && weight.stride_bytes() % n == 0;
}

/// The work of a product whose rows are read once per `pass_tokens` tokens. decode: instructions to decode
/// one weight. multiply: instructions to multiply a weight by the activation of one token.
KernelWork product_work(const MatmulOp& op, int pass_tokens, double decode, double multiply);
/// Like product_work() above, but for several products with the same x.
KernelWork product_work(std::span<const MatmulOp> ops, int pass_tokens, double decode, double multiply);
/// Like product_work(), but for a product on the tensor cores with tiles of tile_tokens tokens
/// (launch_many()), or for products of a batch (launch_batch()). Tokens that a tile lacks are multiplied,
/// too.
KernelWork tile_work(const MatmulOp& op, int tile_tokens);
KernelWork batch_work(std::span<const MatmulOp> ops);

/// Launch one or several products of quantized weights with few tokens, or with a batch of at most
/// kBatchTokens tokens, in one launch. Several products must have the same x, weight type, number of columns
/// and alignment (blocks_aligned()), and no row list (rows.ids). launch_batch() REQUIRES: blocks_aligned().
void launch_few(std::span<const MatmulOp> ops, cudaStream_t stream);
void launch_batch(std::span<const MatmulOp> ops, cudaStream_t stream);
/// Whether all weight blocks of the matrix have the alignment of kBlockAlign, so that kernels can load more
/// than 2 bytes at a time.
bool blocks_aligned(const Matrix& weight);
/// launch_many() launches a product of quantized weights with many tokens, and launch_float() a product of
/// float weights. With n_heads > 1 they compute one product per head, and `op` and `args` describe the
/// product of the first head. The products must not be empty.
void launch_many(const MatmulOp& op, const MatmulArgs& args, cudaStream_t stream, int n_heads = 1,
                 const HeadSteps& steps = {});
void launch_float(const MatmulOp& op, const MatmulArgs& args, cudaStream_t stream, int n_heads = 1,
                  const HeadSteps& steps = {});
/// Returns the work of n_heads products, given the work of one.
inline KernelWork times(int n_heads, KernelWork work) {
  work.bytes *= n_heads;
  work.multiply_adds *= n_heads;
  work.instructions *= n_heads;
  return work;
}

// The numbers of tokens up to which launch_few() and launch_batch() multiply quantized weights; launch_few()
// takes as many as launch_batch() if the weight blocks of a matrix are not aligned. The kernel of
// launch_few() reads the weights once per 4 tokens, that of launch_batch() once. launch_many() always
// computes tiles of 64 tokens.
inline constexpr int kFewTokens = 4, kBatchTokens = 16;

}  // namespace hearth::cuda
