// The weight types and the maximum attention head length that the GPU kernels support.
//
// Types that the CPU decodes block by block are not supported. MXFP4 is not supported, either, because its
// blocks begin at odd addresses and the kernels read two bytes at a time; experts on a device have MXFP4 in a
// repacked layout (expert_types.h). A model that has a tensor of an unsupported type outside of experts runs
// on the CPU (engine/resolved_load.cpp). The kernels for experts support all types. Contains no CUDA headers.
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

/// Like visit_block_type(), for the types that the kernels support. REQUIRES: device_has(type).
template <class Visitor>
void visit_device_block_type(DType type, Visitor&& visit) {
  assert(device_has(type));
  visit_block_type(type, [&]<class Block>() {
    if constexpr (kDeviceHas<Block>) visit.template operator()<Block>();
  });
}

}  // namespace hearth::cuda
