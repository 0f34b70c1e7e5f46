// The weight types and the longest attention heads that the GPU kernels support.
//
// Types that the CPU decodes block by block are not supported, nor is MXFP4: its blocks lie at odd addresses,
// and the kernels read two bytes at a time. Experts on a device have it repacked (expert_types.h). A model
// with a tensor of another type runs on the CPU (engine/resolved_load.cpp). Contains no CUDA headers.
// Thread-safe.
#pragma once

#include <cassert>
#include <type_traits>

#include "kernels/quant/decode.h"

namespace hearth::cuda {

template <class Block>
inline constexpr bool kDeviceHas = !kDecodedFirst<Block> && !std::is_same_v<Block, BlockMXFP4>;

/// The largest head_dim that the attention kernels support.
inline constexpr int kDeviceHeadDim = 768;

inline bool device_has(DType type) {
  bool has = true;  // plain floats are not visited
  visit_block_type(type, [&]<class Block>() { has = kDeviceHas<Block>; });
  return has;
}

/// visit_block_type() for the kernels' types. REQUIRES: device_has(type).
template <class Visitor>
void visit_device_block_type(DType type, Visitor&& visit) {
  assert(device_has(type));
  visit_block_type(type, [&]<class Block>() {
    if constexpr (kDeviceHas<Block>) visit.template operator()<Block>();
  });
}

}  // namespace hearth::cuda
