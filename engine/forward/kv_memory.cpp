// Reservation of KV memory.
#include "engine/forward/kv_memory.h"

#include <algorithm>
#include <limits>

#include "engine/forward/layer_call.h"

namespace hearth {

KvBlockCounts kv_block_counts(const ModelSpec& spec, int context_tokens, int n_contexts, int prefill_chunk,
                              KvType type) {
  const int64_t blocks_of_context = (int64_t{context_tokens} + kKvBlockTokens - 1) / kKvBlockTokens;
  KvBlockCounts counts{.n_blocks = blocks_of_context * n_contexts,
                       .type = type,
                       .indexed = spec.needs_indexer(context_tokens)};
  const int window = spec.window();
  // In an encoder, a step has a whole text, and all of it is needed until the step ends.
  if (window == 0 || window >= context_tokens || spec.arch.looks_ahead) return counts;
  const int64_t of_context = blocks_at_once(window, longest_step(prefill_chunk), kKvBlockTokens) +
                             blocks_before(window, kKvBlockTokens);
  // Separate KV blocks save nothing if a window needs as many KV blocks as a whole context.
  if (of_context >= blocks_of_context) return counts;
  const int64_t n_blocks = std::min<int64_t>(of_context * n_contexts, std::numeric_limits<int>::max());
  counts.window = {.n_positions = window, .n_blocks = static_cast<int>(n_blocks)};
  return counts;
}

std::string why_not_kv_type(const ModelSpec& spec, KvType type) {
  if (type == KvType::kF16) return {};
  if (spec.latent) {
    return "--kv-type q8_0 is for models that keep a key and a value for each head, and this one keeps one "
           "short vector for all heads (latent attention); take --kv-type f16.";
  }
  for (int i = 0; i < spec.n_layers; ++i) {
    if (spec.head_dim_of(i) % kKvGroup == 0) continue;
    return "--kv-type q8_0 takes heads of a multiple of " + std::to_string(kKvGroup) +
           " dimensions, and this model's have " + std::to_string(spec.head_dim_of(i)) +
           "; take --kv-type f16.";
  }
  return {};
}

KvMemory::KvMemory(const ModelSpec& spec, const KvBlockCounts& counts, const Devices& devices)
    : spec_(spec), counts_(counts) {
  for (int i = 0; i < spec.n_layers; ++i) {
    const size_t bytes = layer_bytes(spec, counts, i);
    keys_.push_back(devices.of_layer(i).allocate(bytes));
    values_.push_back(devices.of_layer(i).allocate(bytes));
    index_keys_.push_back(devices.of_layer(i).allocate(index_bytes(spec, counts, i)));
  }
}

KvMemory::KvMemory(const KvMemory& owner, const ModelSpec& spec, std::span<const int> sources)
    : spec_(spec), counts_(owner.counts_) {
  for (const int source : sources) {
    keys_.push_back(view_of(owner.keys_[static_cast<size_t>(source)]));
    values_.push_back(view_of(owner.values_[static_cast<size_t>(source)]));
    index_keys_.emplace_back();
  }
}

size_t KvMemory::layer_bytes(const ModelSpec& spec, const KvBlockCounts& counts, int layer) {
  if (!spec.has_own_kv(layer)) return 0;
  const int64_t block = kv_bytes(counts.type, int64_t{kKvBlockTokens} * spec.kv_dim(layer));
  return static_cast<size_t>(counts.of_layer(spec, layer)) * static_cast<size_t>(block);
}

size_t KvMemory::index_bytes(const ModelSpec& spec, const KvBlockCounts& counts, int layer) {
  if (!counts.indexed || !spec.layer(layer).indexes) return 0;
  const int64_t block = kv_bytes(KvType::kF16, int64_t{kKvBlockTokens} * spec.indexer.head_dim);
  return static_cast<size_t>(counts.of_layer(spec, layer)) * static_cast<size_t>(block);
}

double KvMemory::bytes_needed(const ModelSpec& spec, const KvBlockCounts& counts) {
  double bytes = 0;
  for (int i = 0; i < spec.n_layers; ++i) {
    if (!spec.has_own_kv(i)) continue;
    bytes += kv_position_bytes(spec, i, counts.type) * kKvBlockTokens *
             static_cast<double>(counts.of_layer(spec, i));
    bytes += static_cast<double>(index_bytes(spec, counts, i));
  }
  return bytes;
}

KvShape KvMemory::shape(int layer) const {
  return {.n_kv_heads = spec_.kv_heads_of(layer),
          .head_dim = spec_.head_dim_of(layer),
          .block_tokens = kKvBlockTokens,
          .n_blocks = static_cast<int>(counts_.of_layer(spec_, layer)),
          .type = counts_.type};
}

KvLayer KvMemory::layer(int index) const {
  const auto owner = static_cast<size_t>(spec_.has_own_kv(index) ? index : spec_.layer(index).kv_source);
  return {keys_[owner].data(), values_[owner].data()};
}

size_t KvMemory::block_bytes() const {
  size_t bytes = 0;
  each_part(0, 0, [&](const std::byte*, size_t n_bytes) { bytes += n_bytes; });
  return bytes;
}

void KvMemory::each_part(int32_t block, int32_t separate,
                         const std::function<void(std::byte* part, size_t n_bytes)>& visit) const {
  for (int i = 0; i < spec_.n_layers; ++i) {
    const size_t of_layer = layer_bytes(spec_, counts_, i);
    if (of_layer == 0) continue;
    const size_t n_bytes = of_layer / static_cast<size_t>(counts_.of_layer(spec_, i));
    const size_t offset = static_cast<size_t>(is_window(i) ? separate : block) * n_bytes;
    visit(static_cast<std::byte*>(layer(i).k) + offset, n_bytes);
    visit(static_cast<std::byte*>(layer(i).v) + offset, n_bytes);
    const size_t of_index = index_bytes(spec_, counts_, i) / static_cast<size_t>(counts_.n_blocks);
    if (of_index > 0) {
      const auto keys = static_cast<std::byte*>(index_keys_[static_cast<size_t>(i)].data());
      visit(keys + static_cast<size_t>(block) * of_index, of_index);
    }
  }
}

std::span<std::byte> KvMemory::copy_out(int32_t block, int32_t separate, std::span<std::byte> out) const {
  each_part(block, separate, [&](const std::byte* part, size_t n_bytes) {
    std::copy_n(part, n_bytes, out.begin());
    out = out.subspan(n_bytes);
  });
  return out;
}

std::span<const std::byte> KvMemory::copy_in(int32_t block, int32_t separate,
                                             std::span<const std::byte> in) const {
  each_part(block, separate, [&](std::byte* part, size_t n_bytes) {
    std::ranges::copy(in.first(n_bytes), part);
    in = in.subspan(n_bytes);
  });
  return in;
}

size_t KvMemory::bytes() const {
  size_t bytes = 0;
  for (const Buffer& keys : keys_) bytes += 2 * keys.bytes();
  for (const Buffer& keys : index_keys_) bytes += keys.bytes();
  return bytes;
}

}  // namespace hearth
