// The common parts of the attention kernels: how keys are divided into slices, the running state of the
// softmax, and vector loads.
//
// The kernels do the same arithmetic in the same order as kernels/cpu/attention.cpp and attention_inl.h, so
// the results have the same bits as on AVX2 and AVX-512. The bits of the scalar code differ, because it has
// no fused multiply-add. For one query row:
//
//   k, v = numbers of the KV cache, each a half or an int8 * scale (kv_layout.h); exact in float32
//   score of a key = fma of (q * scale) and k over the dimensions in order, starting from 0; then it is
//       soft-capped. If the model scales queries by position, `scale` includes the factor of the position
//   each slice of slice_tokens_for() keys is computed independently, in tiles of 64 keys, in order:
//     m' = max(m, scores);  p = e^(score - m');  shrink = e^(m - m')
//     sum of a tile: each lane l of 16 adds ((p[l] + p[16+l]) + p[32+l]) + p[48+l]; then lanes 8 apart are
//         added, then lanes 4, 2 and 1 apart
//     sum = sum * shrink + (sum of the tile), rounded twice
//     w (the weighted values) = w * shrink, then fma of p and v over the keys in order
//   join() joins the slices in order, then the sink as a last slice whose value is 0; the result is w / sum.
// With a window, the computation starts at the tile that contains the window's first key; earlier slices and
// tiles are skipped.
//
// The CPU skips operations that change nothing, such as a shrink of e^0; the kernels execute them. Keys
// beyond a row's limit or before its window get a score of -infinity, so that their p is exactly 0. Their
// values must not be added, because 0 times an infinity is NaN. Only the bits of NaNs may differ from the
// CPU's.
#pragma once

#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/rows/exponential.cuh"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

constexpr int kTileKeys = 64;    // kKeyTile of the CPU
constexpr int kSliceKeys = 256;  // kSliceTokens
constexpr int kMaxSlices = 32;   // a context that would need more slices uses longer slices
constexpr int kBlockKeys = 16;   // positions per KV block; the kernels support only this size
constexpr int kMaxHeadDim = kDeviceHeadDim;
// Heads longer than this use only attention_rows(). With 512 dimensions, a warp of attention_tiles() would
// have registers for only two rows. So attention_tiles() would read keys and values as often as
// attention_rows(), which computes four query heads at once.
constexpr int kMaxTileDim = 256;
// The maximum number of query heads of one key/value head that a kernel processes together. The first
// constant is for heads of up to kMaxTileDim dimensions, the second for longer heads, whose queries and sums
// need more shared memory and registers.
constexpr int kMaxPartHeads = 8;
constexpr int kMaxLongPartHeads = 4;

/// The arguments of one call of attention(). The query heads that share a key/value head are divided into
/// `n_parts` parts of at most part_heads heads.
struct AttentionCall {
  const float* q;
  int64_t stride;
  int n_heads;
  AttentionScores scores;
  KvPlaces places;
  KvShape shape;
  KvLayer layer;
  float* out;
  QuantizedActivations quantized;  // quantized form of out; null if it is not quantized
  int group;
  int n_parts;
  int part_heads;
  int tile_tokens;  // the maximum number of tokens that attention_tiles() processes together
};

/// The results of slices until they are joined. A slice's row is (token * n_heads + head) * n_slices + slice.
struct SliceResults {
  float* state;     // [rows, 2] largest score, sum
  float* weighted;  // [rows, head_dim]
  int n_slices;     // 0: each slice is joined as soon as it is computed, and not stored
  uint32_t* done;   // [n_tokens, parts of heads] number of finished slices; 0 before and after a call
};

/// Computes each token separately. If results.n_slices > 0, each slice of a token has its own thread block,
/// and the last thread block to finish joins the slices. Otherwise one thread block processes all keys of a
/// token. only_lone: compute only the tokens that attention_tiles() skips.
void attention_rows(const AttentionCall& call, const SliceResults& results, bool only_lone,
                    cudaStream_t stream);

/// Computes consecutive tokens of a sequence together; skips tokens that have no neighbor.
void attention_tiles(const AttentionCall& call, cudaStream_t stream);

/// The tokens that a kernel computes: all tokens of the step (kAll), only tokens that have no neighbor
/// (kLone), or only tokens that have a neighbor (kNeighbors). A neighbor is an adjacent token of the same
/// sequence in the step.
enum class Attended { kAll, kLone, kNeighbors };
/// The declared work of a kernel that computes the tokens `which`. Keys and values are read once per token,
/// or once per tile of neighboring tokens.
KernelWork attention_work(const AttentionCall& call, Attended which);

// ---- device ----------------------------------------------------------------------------------------------

/// The slice length for a token that sees n_keys positions; see kernels/cpu/attention.cpp.
__device__ inline int slice_tokens_for(int n_keys, const AttentionScores& scores) {
  int tokens = kSliceKeys;
  if (scores.first_seen(n_keys) == 0) {
    while ((n_keys + tokens - 1) / tokens > kMaxSlices) tokens *= 2;
  } else {
    while (scores.window / tokens + 3 > kMaxSlices) tokens *= 2;
  }
  return tokens;
}

/// The number of positions that a token would see without a window; see KvPlaces.
__device__ inline int n_keys_of(const AttentionCall& call, int token) {
  return call.places.n_seen != nullptr ? call.places.n_seen[token] : call.places.positions[token] + 1;
}

/// The factor by which a token's queries are multiplied.
__device__ inline float query_scale(const AttentionCall& call, int token) {
  const AttentionScores& scores = call.scores;
  if (scores.growth == nullptr) return scores.scale;
  const int stretch = (call.places.positions[token] + scores.growth_from) / scores.growth_span;
  return __fmul_rn(scores.scale, scores.growth[stretch]);
}

/// N numbers that are loaded and stored together. REQUIRES: the address is a multiple of their total size.
template <int N>
struct alignas(4 * N) Floats {
  float at[N];
};
template <int N, class T>
struct alignas(sizeof(T) * N) Packed {
  T at[N];
};

// Exact for both types.
__device__ inline float widen(uint16_t half) { return __half2float(__ushort_as_half(half)); }
__device__ inline float widen(int8_t whole) { return static_cast<float>(whole); }

/// Converts a number of the KV cache to float32. `scale` is ignored for types without scales.
template <KvType kType>
__device__ inline float cached(typename KvStored<kType>::Number number, float scale) {
  if constexpr (kType == KvType::kQ8) return __fmul_rn(widen(number), scale);
  return widen(number);
}
__device__ inline float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }
__device__ inline float larger(float a, float b) { return a > b ? a : b; }

/// Returns, in every lane, the maximum over the lane's group of 16 neighboring lanes.
__device__ inline float largest_of_16(float x) {
  GPU_UNROLL
  for (int apart = 8; apart > 0; apart /= 2) x = larger(x, __shfl_xor_sync(0xffffffffu, x, apart, 16));
  return x;
}
__device__ inline float sum_of_16(float x) {
  GPU_UNROLL
  for (int apart = 8; apart > 0; apart /= 2) x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, apart, 16));
  return x;
}

/// The running softmax state of one row: the largest score, and the sum of e^(score - largest).
struct RowState {
  float largest;
  float sum;
};

struct JoinFactors {
  float earlier;
  float later;
};

/// Merges a slice's state into `state`, which covers all earlier slices; join_weighted() then merges the
/// weighted sums.
__device__ inline JoinFactors join(RowState& state, RowState slice) {
  const float largest = larger(slice.largest, state.largest);
  const JoinFactors factors{exponential(__fsub_rn(state.largest, largest)),
                            exponential(__fsub_rn(slice.largest, largest))};
  state.largest = largest;
  state.sum = __fadd_rn(__fmul_rn(state.sum, factors.earlier), __fmul_rn(slice.sum, factors.later));
  return factors;
}
__device__ inline float join_weighted(float weighted, float slice, JoinFactors factors) {
  return __fmaf_rn(slice, factors.later, __fmul_rn(weighted, factors.earlier));
}

/// Merges a sink into a row's state; join_weighted() then merges the sink's value, which is 0.
__device__ inline JoinFactors join_sink(RowState& state, float sink) { return join(state, {sink, 1.0f}); }

/// The query heads that blockIdx.y computes. They are some of the query heads of one key/value head.
struct HeadPart {
  int first_head;
  int n_heads;
  int kv_head;
};
__device__ inline HeadPart head_part(const AttentionCall& call) {
  const int kv_head = static_cast<int>(blockIdx.y) / call.n_parts;
  const int first = static_cast<int>(blockIdx.y) % call.n_parts * call.part_heads;
  const int left = call.group - first;
  return {kv_head * call.group + first, left < call.part_heads ? left : call.part_heads, kv_head};
}

/// One head's keys and values in the cache; see KvHead.
template <KvType kType>
struct CachedHead {
  using Number = typename KvStored<kType>::Number;
  const Number* k;
  const Number* v;
  const uint16_t* k_scales;
  const uint16_t* v_scales;
  int64_t block_stride;

  /// Return the scales of a KV block's keys [head_dim / kKvGroup, kBlockKeys] and values [kBlockKeys,
  /// head_dim / kKvGroup].
  __device__ const uint16_t* key_scales(int64_t block) const { return k_scales + block * (block_stride / 2); }
  __device__ const uint16_t* value_scales(int64_t block) const {
    return v_scales + block * (block_stride / 2);
  }
};
template <KvType kType>
__device__ inline CachedHead<kType> cached_head(const AttentionCall& call, const HeadPart& part) {
  const KvHead<kType> k = kv_head<kType>(call.layer.k, call.shape, part.kv_head);
  const KvHead<kType> v = kv_head<kType>(call.layer.v, call.shape, part.kv_head);
  return {k.numbers, v.numbers, k.scales, v.scales, k.block_stride};
}

__device__ inline const int32_t* block_table(const AttentionCall& call, int token) {
  return call.places.block_tables + int64_t{call.places.table_of[token]} * call.places.max_blocks;
}

/// Whether `token` begins a new run. A run is a sequence of consecutive tokens that attention_tiles()
/// processes together: at most call.tile_tokens tokens of one sequence with the same slice length.
__device__ inline bool begins_run(const AttentionCall& call, int token) {
  if (token % call.tile_tokens == 0) return true;
  const int32_t* positions = call.places.positions;
  return call.places.table_of[token] != call.places.table_of[token - 1] ||
         positions[token] != positions[token - 1] + 1 ||
         slice_tokens_for(n_keys_of(call, token), call.scores) !=
             slice_tokens_for(n_keys_of(call, token - 1), call.scores);
}

}  // namespace hearth::cuda
