// Reservation of KV memory.
#include "engine/forward/kv_memory.h"

namespace hearth {

KvMemory::KvMemory(const ModelSpec& spec, int n_blocks, const Devices& devices)
    : shape_{.n_kv_heads = spec.n_kv_heads,
             .head_dim = spec.head_dim,
             .block_tokens = kKvBlockTokens,
             .n_blocks = n_blocks} {
  const size_t bytes = layer_bytes(spec, n_blocks);
  for (int i = 0; i < spec.n_layers; ++i) {
    keys_.push_back(devices.of_layer(i).allocate(bytes));
    values_.push_back(devices.of_layer(i).allocate(bytes));
  }
}

size_t KvMemory::layer_bytes(const ModelSpec& spec, int n_blocks) {
  return static_cast<size_t>(n_blocks) * kKvBlockTokens * static_cast<size_t>(spec.kv_dim()) *
         sizeof(uint16_t);
}

double KvMemory::bytes_needed(const ModelSpec& spec, int64_t n_blocks) {
  return 2.0 * sizeof(uint16_t) * spec.n_layers * spec.kv_dim() * kKvBlockTokens *
         static_cast<double>(n_blocks);
}

KvLayer KvMemory::layer(int index) const {
  return {keys_[static_cast<size_t>(index)].halves(), values_[static_cast<size_t>(index)].halves()};
}

size_t KvMemory::bytes() const { return keys_.empty() ? 0 : 2 * keys_.size() * keys_.front().bytes(); }

}  // namespace hearth
