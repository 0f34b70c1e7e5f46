// Products with experts' matrices: chooses the kernel.
#include <algorithm>
#include <array>
#include <cassert>
#include <functional>

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cuda/experts/expert_args.cuh"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/cuda/ops/kernel_class.h"

namespace hearth::cuda {
namespace {

/// Products run on the tensor cores if tiles have more rows than this.
constexpr int kMostFewRows = 4;

bool is_empty(const ExpertProduct& product) { return product.n_rows == 0; }

bool are_alike(const Matrix& a, const Matrix& b) { return a.dtype == b.dtype && a.n_cols == b.n_cols; }

void launch(const ExpertCall& call, cudaStream_t stream) {
  const DType type = call.weight().dtype;
  if (!uses_quantized_activations(type)) return launch_expert_floats(call, stream);
  call.groups.tile_rows <= kMostFewRows ? launch_expert_few(call, stream) : launch_expert_tiles(call, stream);
}

}  // namespace

ExpertArgs ExpertCall::args() const {
  ExpertArgs args;
  for (size_t i = 0; i < products.size(); ++i) {
    const ExpertProduct& product = products[i];
    assert(product.weight.stride_bytes() == slot_row_bytes(product.weight.dtype, product.weight.n_cols));
    args.parts[i] = {reinterpret_cast<const uint8_t*>(product.weight.data), product.n_rows, product.bias,
                     product.out};
  }
  args.row_bytes = static_cast<int64_t>(weight().stride_bytes());
  args.n_cols = weight().n_cols;
  args.x = inputs.x;
  args.quantized = inputs.quantized;
  args.token_of_row = inputs.by_pair ? nullptr : groups.token_of_row;
  args.tiles = groups.tiles;
  args.n_tiles = groups.counts;
  args.first_slot = groups.first_slot;
  args.end_slot = groups.end_slot;
  return args;
}

unsigned ExpertCall::blocks(int block_rows) const {
  int64_t blocks = 0;
  for (const ExpertProduct& product : products) blocks += (product.n_rows + block_rows - 1) / block_rows;
  return static_cast<unsigned>(blocks);
}

std::function<KernelWork()> ExpertCall::work(double decode, double multiply, bool on_tensor_cores) const {
  int64_t n_rows = 0;
  for (const ExpertProduct& product : products) n_rows += product.n_rows;
  return [=, weight = weight(), by_pair = inputs.by_pair, groups = groups] {
    int64_t tiles = 0, rows = 0;
    for (int32_t i = 0; i < groups.counts[0]; ++i) {
      const ExpertTile& tile = groups.tiles[i];
      if (tile.slot < groups.first_slot || tile.slot >= groups.end_slot) continue;
      ++tiles;
      rows += tile.n_rows;
    }
    const bool quantized = uses_quantized_activations(weight.dtype);
    const auto n_inputs = static_cast<double>(by_pair ? rows : std::min<int64_t>(rows, groups.n_tokens));
    const double input_bytes = (quantized ? 2 + 12.0 / 32 : 4) * static_cast<double>(weight.n_cols);
    const double weights = static_cast<double>(n_rows * weight.n_cols);
    KernelWork work{.kind = on_tensor_cores ? tile_class(weight.dtype) : product_class(weight.dtype)};
    work.bytes = static_cast<double>(tiles * n_rows) * static_cast<double>(weight.stride_bytes()) +
                 n_inputs * input_bytes + floats(rows * n_rows) + floats(4 * tiles + (by_pair ? 0 : rows));
    work.multiply_adds = on_tensor_cores ? weights * static_cast<double>(rows) : 0;
    work.instructions =
        weights * (static_cast<double>(tiles) * decode + static_cast<double>(rows) * multiply);
    return work;
  };
}

void expert_products(std::span<const ExpertProduct> products, const ExpertInputs& inputs,
                     const ExpertGroups& groups, cudaStream_t stream) {
  if (groups.n_pairs == 0) return;
  std::array<ExpertProduct, kMostExpertProducts> some;
  size_t n = 0;
  const auto flush = [&] {
    if (n > 0) launch({{some.data(), n}, inputs, groups}, stream);
    n = 0;
  };
  for (const ExpertProduct& product : products) {
    if (is_empty(product)) continue;
    if (n > 0 && !are_alike(some[0].weight, product.weight)) flush();
    some[n++] = product;
  }
  flush();
}

}  // namespace hearth::cuda
