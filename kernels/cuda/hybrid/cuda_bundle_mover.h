// The BundleMover of a CUDA device. It has a non-blocking stream of its own, on which copies run beside the
// backend's kernels.
//
// Contains no CUDA headers, so that the engine can include it; a build without CUDA links no_cuda.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/base/trace.h"
#include "kernels/bundle_mover.h"
#include "kernels/hybrid_ffn.h"

namespace hearth::cuda {

/// How bundles are copied from pinned host memory.
enum class CopyWay {
  kGather,  // one kernel launch reads the host rows over the bus and writes the device rows
  kDma,     // one copy for every run of neighbours in each matrix
};

struct BundleMoverOptions {
  CopyWay way = CopyWay::kGather;  // kernels/DECISIONS.md says why
  /// Pinned staging memory, for bundles whose host memory is not pinned; these always come by copies. Grows
  /// if a bundle is larger than half of it.
  size_t staging_bytes = size_t{4} << 20;
  Trace* trace = nullptr;  // outlives the mover; null: nothing is traced
};

/// Makes a mover for the neurons of these layers, which must outlive it. It moves rows of gate (unless all
/// gates are on the device), up and down, or the codes of a coded down projection. Throws CudaError,
/// std::bad_alloc.
std::unique_ptr<BundleMover> make_bundle_mover(std::span<const HybridLayer* const> layers,
                                               const BundleMoverOptions& options);

}  // namespace hearth::cuda
