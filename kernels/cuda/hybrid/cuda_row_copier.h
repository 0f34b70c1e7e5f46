// The RowCopier of a CUDA device. It has its own non-blocking stream, on which copies run concurrently with
// the backend's kernels.
//
// Contains no CUDA headers, so that the engine can include it; a build without CUDA links no_cuda.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/base/trace.h"
#include "kernels/hybrid_ffn.h"
#include "kernels/row_copier.h"

namespace hearth::cuda {

struct RowCopierOptions {
  CopyWay way = CopyWay::kGather;
  /// Bytes of pinned staging memory. A bundle (the rows of one neuron) in host memory that is not pinned is
  /// copied through it, whatever `way` is. The copier allocates more if a bundle is larger than half of this.
  size_t staging_bytes = size_t{4} << 20;
  Trace* trace = nullptr;  // outlives the copier; null: nothing is traced
};

/// Creates a copier for the neurons of these layers, which must outlive it. It copies rows of gate (unless
/// all gates are on the device), rows of up, and either rows of down or the codes of a coded down projection.
/// Throws CudaError, std::bad_alloc.
std::unique_ptr<RowCopier> make_row_copier(std::span<const HybridLayer* const> layers,
                                           const RowCopierOptions& options);

}  // namespace hearth::cuda
