// Attention over the paged cache: which of its kernels take a step. See attention.cuh for the arithmetic.
//
// A step of a few tokens is cut by slices of keys, so that one token alone fills the device. The slices'
// results go through scratch, 4 * (head_dim + 2) bytes for each token, head and slice. A larger step has
// enough thread blocks: consecutive tokens form tiles, and a token without a neighbour (a decode token of a
// mixed step) gets a thread block of its own; nothing goes through scratch. Heads longer than kMaxTileDim get a
// thread block for each token in larger steps too. The choice of kernel changes no bit.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cuda/attention/attention.cuh"

namespace hearth::cuda {
namespace {

// Steps of up to this many tokens are cut by slices. With 8 key/value heads 32 tokens are 256 thread blocks,
// two for each multiprocessor of a large device; scratch for more tokens would take tens of MiB.
constexpr int kMaxSplitTokens = 32;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// The most slices of a token at a position below n_keys.
int most_slices(int n_keys, int window = 0) {
  const int slices = std::min(kMaxSlices, ceil_div(n_keys, kSliceKeys));
  return window > 0 ? std::min(slices, window / kSliceKeys + 2)
                    : slices;  // it may begin and end amid a slice
}

/// The rows of a tile in attention_tiles().
int tile_rows(int head_dim) { return head_dim <= 128 ? 32 : 16; }

void require(bool holds, const std::string& found) {
  if (!holds) throw std::invalid_argument("Attention on a CUDA device: " + found);
}

}  // namespace

size_t attention_scratch_bytes(int max_tokens, int n_heads, int head_dim, int max_context) {
  const int slices = most_slices(max_context);
  if (slices < 2) return 0;
  const int tokens = std::min(max_tokens, kMaxSplitTokens);
  return static_cast<size_t>(tokens) * static_cast<size_t>(n_heads) * static_cast<size_t>(slices) *
         static_cast<size_t>(head_dim + 2) * sizeof(float);
}

void attention(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
               const KvPlaces& places, const KvShape& shape, KvLayer layer, int longest, void* scratch,
               float* out, cudaStream_t stream) {
  if (places.n_tokens == 0 || n_heads == 0 || shape.head_dim == 0) return;
  require(shape.head_dim <= kMaxHeadDim,
          "a head has " + std::to_string(shape.head_dim) + " dimensions, the kernels take up to " +
              std::to_string(kMaxHeadDim) + ". Keep this model's attention on the CPU.");
  require(shape.block_tokens == kBlockKeys, "a cache block has " + std::to_string(shape.block_tokens) +
                                                " positions, the kernels expect " +
                                                std::to_string(kBlockKeys) + ".");
  const int group = n_heads / shape.n_kv_heads;
  const bool tiles = shape.head_dim <= kMaxTileDim;
  const int n_parts = ceil_div(group, tiles ? kMaxPartHeads : kMaxLongPartHeads);
  const int part_heads = ceil_div(group, n_parts);
  const AttentionCall call{q,      stride,  n_heads,    scores,
                           places, shape,   layer,      out,
                           group,  n_parts, part_heads, tile_rows(shape.head_dim) / part_heads};
  const int slices = most_slices(longest, scores.window);
  if (places.n_tokens > kMaxSplitTokens && tiles) {
    attention_rows(call, {}, /*only_lone=*/true, stream);
    attention_tiles(call, stream);
  } else if (places.n_tokens > kMaxSplitTokens || slices < 2) {
    attention_rows(call, {}, /*only_lone=*/false, stream);
  } else {
    const int64_t rows = int64_t{places.n_tokens} * n_heads * slices;
    float* weighted = static_cast<float*>(scratch);
    attention_rows(call, {weighted + rows * shape.head_dim, weighted, slices}, /*only_lone=*/false, stream);
  }
}

}  // namespace hearth::cuda
