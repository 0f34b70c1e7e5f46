// Attention over the paged cache: chooses the kernels for a step. See attention_launch.cuh for the
// arithmetic.
//
// In a step of a few tokens, the keys of each token are divided into slices, so that even one token occupies
// the whole device. The slices store their results in scratch: 4 * (head_dim + 2) bytes per token, head and
// slice. A larger step has enough thread blocks without slices and uses no scratch: consecutive tokens form
// tiles, and a token without a neighbor (a decode token of a mixed step) gets its own thread block. If heads
// are longer than kMaxTileDim, every token of a larger step gets its own thread block. All kernels compute
// the same bits.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cuda/attention/attention_launch.cuh"
#include "kernels/cuda/ops/kernel_class.h"

namespace hearth::cuda {
namespace {

// Steps of up to this many tokens divide the keys into slices. With 8 key/value heads, 32 tokens are 256
// thread blocks even without slices, which is two per multiprocessor of a large device. Scratch for more
// tokens would take tens of MiB.
constexpr int kMaxSplitTokens = kSplitTokens;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// The maximum number of slices for a token that sees at most n_keys positions.
int most_slices(int n_keys, int window = 0) {
  const int slices = std::min(kMaxSlices, ceil_div(n_keys, kSliceKeys));
  return window > 0 ? std::min(slices, window / kSliceKeys + 2)
                    : slices;  // a window may begin and end in the middle of a slice
}

/// The rows of a tile in attention_tiles().
int tile_rows(int head_dim) { return head_dim <= 128 ? 32 : 16; }

void require(bool holds, const std::string& found) {
  if (!holds) throw std::invalid_argument("Attention on a CUDA device: " + found);
}

/// Whether the previous or next token of the step belongs to the same sequence and has the adjacent position.
bool has_neighbor(const KvPlaces& places, int t) {
  const auto follows = [&](int a, int b) {
    return a >= 0 && b < places.n_tokens && places.table_of[a] == places.table_of[b] &&
           places.positions[b] == places.positions[a] + 1;
  };
  return follows(t - 1, t) || follows(t, t + 1);
}

}  // namespace

KernelWork attention_work(const AttentionCall& call, Attended which) {
  const KvPlaces& places = call.places;
  double keys = 0, read = 0;  // keys: (token, key) pairs to compute; read: keys loaded from memory
  int n_tokens = 0, in_tile = 0;
  for (int t = 0; t < places.n_tokens; ++t) {
    const bool neighbor = has_neighbor(places, t);
    if ((which == Attended::kLone && neighbor) || (which == Attended::kNeighbors && !neighbor)) continue;
    const int n_keys = places.n_keys(t);
    const double seen = call.scores.window > 0 ? std::min(n_keys, call.scores.window) : n_keys;
    ++n_tokens;
    keys += seen;
    if (which != Attended::kNeighbors || in_tile++ % std::max(call.tile_tokens, 1) == 0) read += seen;
  }
  const double width = 1.0 * call.shape.n_kv_heads * call.shape.head_dim, heads = call.n_heads,
               head_dim = call.shape.head_dim;
  const KvType type = call.shape.type;
  const double key_and_value =
      2.0 * static_cast<double>(kv_bytes(type, int64_t{call.shape.n_kv_heads} * call.shape.head_dim));
  // With KvType::kQ8, each number that is read is multiplied by its scale once, for all queries together.
  const double scaling = type == KvType::kQ8 ? 2 * read * width : 0;
  return {.kind = which == Attended::kNeighbors ? KernelClass::kAttentionTiles : KernelClass::kAttention,
          .bytes = key_and_value * read + 8.0 * n_tokens * heads * head_dim,
          .instructions = attention_instructions(keys, heads, head_dim) + scaling};
}

size_t attention_scratch_bytes(int max_tokens, int n_heads, int head_dim, int max_context) {
  const int slices = most_slices(max_context);
  if (slices < 2) return 0;
  const int tokens = std::min(max_tokens, kMaxSplitTokens);
  return attention_counter_bytes(n_heads) + static_cast<size_t>(tokens) * static_cast<size_t>(n_heads) *
                                                static_cast<size_t>(slices) *
                                                static_cast<size_t>(head_dim + 2) * sizeof(float);
}

void attention(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
               const KvPlaces& places, const KvShape& shape, KvLayer layer, int longest, void* scratch,
               float* out, cudaStream_t stream, const QuantizedActivations& quantized) {
  if (places.n_tokens == 0 || n_heads == 0 || shape.head_dim == 0) return;
  require(shape.head_dim <= kMaxHeadDim,
          "a head has " + std::to_string(shape.head_dim) + " dimensions, the kernels take up to " +
              std::to_string(kMaxHeadDim) + ". Keep this model's attention on the CPU.");
  require(shape.block_tokens == kBlockKeys, "a cache block has " + std::to_string(shape.block_tokens) +
                                                " positions, the kernels expect " +
                                                std::to_string(kBlockKeys) + ".");
  require(shape.type != KvType::kQ8 || shape.head_dim % kKvGroup == 0,
          "a head has " + std::to_string(shape.head_dim) +
              " dimensions, of which a cache of type q8_0 takes multiples of " + std::to_string(kKvGroup) +
              ".");
  const int group = n_heads / shape.n_kv_heads;
  const bool tiles = shape.head_dim <= kMaxTileDim;
  const int n_parts = ceil_div(group, tiles ? kMaxPartHeads : kMaxLongPartHeads);
  const int part_heads = ceil_div(group, n_parts);
  const AttentionCall call{q,
                           stride,
                           n_heads,
                           scores,
                           places,
                           shape,
                           layer,
                           out,
                           quantized,
                           group,
                           n_parts,
                           part_heads,
                           tile_rows(shape.head_dim) / part_heads};
  const int slices = most_slices(longest, scores.window);
  if (places.n_tokens > kMaxSplitTokens && tiles) {
    attention_rows(call, {}, /*only_lone=*/true, stream);
    attention_tiles(call, stream);
  } else if (places.n_tokens > kMaxSplitTokens || slices < 2) {
    attention_rows(call, {}, /*only_lone=*/false, stream);
  } else {
    const int64_t rows = int64_t{places.n_tokens} * n_heads * slices;
    auto* done = gpu_aligned<uint32_t>(scratch);
    float* weighted = gpu_aligned<float>(scratch) + attention_counter_bytes(n_heads) / sizeof(float);
    attention_rows(call, {weighted + rows * shape.head_dim, weighted, slices, done}, /*only_lone=*/false,
                   stream);
  }
}

}  // namespace hearth::cuda
