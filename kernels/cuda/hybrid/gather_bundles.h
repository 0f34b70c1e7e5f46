// A kernel that copies bundles (the rows of one neuron each) from mapped host memory to the device, for
// cuda_row_copier.cpp.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/row_prefetcher.h"

namespace hearth::cuda {

/// One matrix of a layer: its rows in host memory, by neuron, and on the device, by device row.
struct BundlePart {
  const std::byte* from = nullptr;  // the device's address of the memory
  size_t from_stride = 0;
  std::byte* to = nullptr;
  size_t to_stride = 0;
  size_t bytes = 0;  // bytes of a row
  int word = 1;      // bytes per load: the largest of 16, 8, 4, 2 and 1 that divides all of the above
};

struct BundleGather {
  BundlePart parts[3];  // the parts that are moved: gate, up and down, or some of them
  int n_parts = 0;
  const RowChange* moves = nullptr;  // [n_moves], pinned
  int n_moves = 0;
};

/// Copies every part for every move. The rules in ops.h for all operations apply.
void gather_bundles(const BundleGather& gather, cudaStream_t stream);

}  // namespace hearth::cuda
