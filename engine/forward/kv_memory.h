// The memory of the KV cache: for each layer with attention, the keys and values of every KV block, all
// reserved at load.
//
// engine/kv/kv_blocks.h decides which KV block belongs to which sequence; this class only holds the bytes.
// Engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/kv/kv_window.h"
#include "engine/model/devices.h"
#include "engine/model/model_spec.h"

namespace hearth {

/// Positions per KV block. The number is small enough that nearly all of a shared prefix can be reused. It is
/// large enough that one head's part of a KV block (16 x 64 halves = 2 KiB) is read fast.
inline constexpr int kKvBlockTokens = 16;

/// Numbers of KV blocks in the layers of a model.
struct KvBlockCounts {
  int64_t n_blocks = 0;        // KV blocks in each layer with attention, without separate KV blocks
  KvWindow window = {};        // the separate KV blocks of layers with a window, if any
  KvType type = KvType::kF16;  // type of the keys and values in all layers
  bool indexed = false;        // layers with an indexer also have its keys (ModelSpec::needs_indexer)

  /// Whether the layer has a window and therefore uses the separate KV blocks.
  bool is_window(const ModelSpec& spec, int layer) const { return window && spec.layer(layer).window > 0; }
  int64_t of_layer(const ModelSpec& spec, int layer) const {
    if (!spec.attends(layer)) return 0;
    return is_window(spec, layer) ? window.n_blocks : n_blocks;
  }
};

/// Returns the numbers of KV blocks for n_contexts sequences of context_tokens each, computed in steps of
/// prefill_chunk. Also used in plans for models that are not loaded. Layers with a window get separate KV
/// blocks if that takes less memory. For each context, the number of separate KV blocks is the sum of two
/// parts: those that a sequence holds at once, and those that one window takes. With the second part, the
/// prefix cache can keep the last window of an earlier sequence, so that a later prompt can continue that
/// sequence.
KvBlockCounts kv_block_counts(const ModelSpec& spec, int context_tokens, int n_contexts, int prefill_chunk,
                              KvType type = KvType::kF16);

/// Returns the reason why a model cannot have keys and values of this type, as one sentence; empty if it can.
std::string why_not_kv_type(const ModelSpec& spec, KvType type);

/// Bytes of one position's key and value in one layer, without an indexer's key; 0 if the layer has no
/// attention. REQUIRES: the model can have keys and values of this type.
inline double kv_position_bytes(const ModelSpec& spec, int layer, KvType type) {
  return !spec.attends(layer) ? 0.0 : 2.0 * static_cast<double>(kv_bytes(type, spec.kv_dim(layer)));
}

class KvMemory {
 public:
  /// Allocates the KV blocks of every layer with attention, in the memory of the device that computes the
  /// layer's attention. Throws std::bad_alloc. REQUIRES: the counts fit in an int.
  KvMemory(const ModelSpec& spec, const KvBlockCounts& counts, const Devices& devices);

  /// A view of some layers of a model, for an assistant: layer i of `spec` reads layer sources[i] of `owner`,
  /// which must outlive this object.
  KvMemory(const KvMemory& owner, const ModelSpec& spec, std::span<const int> sources);

  /// Bytes that the first constructor allocates. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, const KvBlockCounts& counts);
  /// Bytes of the keys of one layer's indexer; 0 if it has none.
  static size_t index_bytes(const ModelSpec& spec, const KvBlockCounts& counts, int layer);
  /// Bytes of one layer's keys. Its values take the same number of bytes.
  static size_t layer_bytes(const ModelSpec& spec, const KvBlockCounts& counts, int layer);

  const KvBlockCounts& counts() const { return counts_; }
  KvShape shape(int layer) const;
  /// The keys and values that the layer reads: its own, or those of LayerSpec::kv_source.
  KvLayer layer(int index) const;
  /// The keys of the layer's indexer (kernels/indexer.h); null if it has none.
  uint16_t* index_keys(int layer) const {
    return static_cast<uint16_t*>(index_keys_[static_cast<size_t>(layer)].data());
  }
  /// Whether Batch::window_tables, rather than Batch::block_tables, lists the layer's KV blocks.
  bool is_window(int layer) const { return counts_.is_window(spec_, layer); }
  size_t bytes() const;
  /// Bytes of the keys and values of one KV block in all layers.
  size_t block_bytes() const;
  /// Copies the keys and values of one KV block to host memory or back. `separate` is the KV block for these
  /// tokens in the layers that have separate KV blocks, if any. Returns the rest of the span. REQUIRES: the
  /// CPU computes all layers; the span has at least block_bytes() bytes.
  std::span<std::byte> copy_out(int32_t block, int32_t separate, std::span<std::byte> out) const;
  std::span<const std::byte> copy_in(int32_t block, int32_t separate, std::span<const std::byte> in) const;
  size_t bytes_of_keys(int layer) const { return keys_[static_cast<size_t>(layer)].bytes(); }

 private:
  /// Calls with the address and bytes of each layer's keys and values, and of its indexer's keys, always in
  /// the same order.
  void each_part(int32_t block, int32_t separate,
                 const std::function<void(std::byte* part, size_t n_bytes)>& visit) const;

  const ModelSpec& spec_;
  KvBlockCounts counts_;
  std::vector<Buffer> keys_, values_;  // [n_layers]
  std::vector<Buffer> index_keys_;     // [n_layers]
};

}  // namespace hearth
