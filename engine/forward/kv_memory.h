// The memory of the KV cache: for each layer, keys and values of every KV block, all reserved at load.
//
// engine/serving/kv_blocks.h decides which KV block belongs to which sequence; this class only holds the
// bytes. Engine thread.
#pragma once

#include <vector>

#include "engine/forward/devices.h"
#include "engine/model/model_spec.h"

namespace hearth {

/// Positions per KV block: small enough that a shared prefix is reused nearly whole, large enough that one head's
/// part of a KV block (16 x 64 halves = 2 KiB) is read fast.
inline constexpr int kKvBlockTokens = 16;

class KvMemory {
 public:
  /// Allocates n_blocks KV blocks for every layer, in the memory of the device that computes its attention.
  /// Throws std::bad_alloc.
  KvMemory(const ModelSpec& spec, int n_blocks, const Devices& devices);

  /// Bytes of that memory. A double, so that absurd sizes do not wrap around.
  static double bytes_needed(const ModelSpec& spec, int64_t n_blocks);
  /// Bytes of one layer's keys; its values take as many.
  static size_t layer_bytes(const ModelSpec& spec, int n_blocks);

  const KvShape& shape() const { return shape_; }
  KvLayer layer(int index) const;
  size_t bytes() const;

 private:
  KvShape shape_;
  std::vector<Buffer> keys_, values_;  // [n_layers]
};

}  // namespace hearth
