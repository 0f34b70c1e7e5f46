// The launch arguments of the kernels that multiply by experts' matrices, and the code with which a thread
// block finds its part of the work.
#pragma once

#include <functional>
#include <span>

#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// The kernel arguments of one or two products with the same inputs. A launch has a row of thread blocks for
/// every tile: first the thread blocks of the first product, then the thread blocks of the second.
struct ExpertArgs {
  struct Part {  // no initializers, because kernels also keep it in shared memory
    const uint8_t* weights;
    int64_t n_rows;  // of an expert
    const float* bias;
    float* out;
  };
  Part parts[kMostExpertProducts] = {};
  int64_t row_bytes = 0;
  int64_t n_cols = 0;
  const float* x = nullptr;
  QuantizedActivations quantized;
  const int32_t* token_of_row = nullptr;  // null: inputs are by row
  const ExpertTile* tiles = nullptr;
  const int32_t* n_tiles = nullptr;
  int first_slot = 0, end_slot = 0;  // see ExpertGroups

  /// Returns the input row for row i of the tile.
  __device__ __forceinline__ int input_row(const ExpertTile& tile, int i) const {
    const int row = tile.first_row + i;
    return token_of_row == nullptr ? row : __ldg(token_of_row + row);
  }
};

/// The work of one thread block: a tile, and some rows of one product.
struct ExpertWork {
  ExpertTile tile;
  ExpertArgs::Part part;
  int64_t first;  // row of the expert

  __device__ __forceinline__ const uint8_t* row_begin(int64_t row, int64_t row_bytes) const {
    return part.weights + (tile.slot * part.n_rows + min(row, part.n_rows - 1)) * row_bytes;
  }
  __device__ __forceinline__ void store(int i, int64_t row, float value) const {
    if (part.bias != nullptr) value = __fadd_rn(value, part.bias[tile.expert * part.n_rows + row]);
    part.out[(tile.first_row + i) * part.n_rows + row] = value;
  }
};

/// Finds the work of a thread block that computes block_rows rows for tile `number`. block: the index among
/// the thread blocks of the tile. Returns false if the tile does not exist or its slot is out of range.
__device__ __forceinline__ bool find_work(const ExpertArgs& args, int64_t number, int64_t block,
                                          int block_rows, ExpertWork& work) {
  // Both loads are issued before either result is needed. `tiles` has room for every `number` of the grid.
  const int32_t n_tiles = __ldg(args.n_tiles);
  const int4 tile = __ldg(gpu_aligned<int4>(args.tiles) + number);
  if (number >= n_tiles || tile.x < args.first_slot || tile.x >= args.end_slot) return false;
  work.tile = {tile.x - args.first_slot, tile.y, tile.z, tile.w};
  const int64_t of_first = (args.parts[0].n_rows + block_rows - 1) / block_rows;
  const bool second = block >= of_first;
  work.part = second ? args.parts[1] : args.parts[0];
  work.first = (second ? block - of_first : block) * block_rows;
  return true;
}

/// The arguments of the launchers: products of one type and width.
struct ExpertCall {
  std::span<const ExpertProduct> products;
  const ExpertInputs& inputs;
  const ExpertGroups& groups;

  const Matrix& weight() const { return products.front().weight; }
  ExpertArgs args() const;
  /// Thread blocks of block_rows rows for each tile.
  unsigned blocks(int block_rows) const;
  /// Returns a function that computes the KernelWork of the launch. Weights are read and decoded once per
  /// tile. decode, multiply: as in product_work() of matmul_args.cuh. on_tensor_cores: whether the products
  /// run on the tensor cores.
  std::function<KernelWork()> work(double decode, double multiply, bool on_tensor_cores) const;
};

/// Launch the products: launch_expert_few() for quantized weights with tiles of at most 4 rows,
/// launch_expert_tiles() for quantized weights with larger tiles, and launch_expert_floats() for float
/// weights.
void launch_expert_few(const ExpertCall& call, cudaStream_t stream);
void launch_expert_tiles(const ExpertCall& call, cudaStream_t stream);
void launch_expert_floats(const ExpertCall& call, cudaStream_t stream);

}  // namespace hearth::cuda
