// A kernel that reads bundles from mapped host memory, for cuda_row_copier.cpp.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/row_prefetcher.h"

namespace hearth::cuda {

/// One matrix of a layer: where its rows lie on the host, by neuron, and on the device, by device row.
struct BundlePart {
  const std::byte* from = nullptr;  // as the device addresses it
  size_t from_stride = 0;
  std::byte* to = nullptr;
  size_t to_stride = 0;
  size_t bytes = 0;  // bytes of a row
  int word = 1;      // bytes of a load: 16, 8, 4, 2 or 1, the largest that divides all of the above
};

struct BundleGather {
  BundlePart parts[3];  // gate, up, down; only those that are moved
  int n_parts = 0;
  const RowChange* moves = nullptr;  // [n_moves], pinned
  int n_moves = 0;
};

/// Copies every part of every move. See ops.h for what all operations have in common.
void gather_bundles(const BundleGather& gather, cudaStream_t stream);

}  // namespace hearth::cuda
