// Attention of single tokens. A thread block computes one token for some of the query heads of a key/value
// head. It processes either all keys, or one slice of them, in which case the last thread block to finish
// joins the slices. See attention_launch.cuh for the arithmetic.
//
// A thread block processes 256 keys at a time, which are four softmax tiles. A row is a query head.
//   1. scores: one thread per key computes all rows; the 16 keys of a KV block are adjacent in each dimension
//   2. the largest score of each row and tile: 16 lanes per tile
//   3. p and its sums: also 16 lanes per tile, which first combine the largest scores of all tiles so far
//   4. values: one thread per dimension (or per three dimensions if heads are longer than 256) computes all
//      rows, with the keys in order
// So keys and values are read once for all rows, at 2 bytes per number, or 17/16 bytes with KvType::kQ8. Each
// key, dimension and row takes 2 fused multiply-adds, one for the score and one for the value. With 8 rows
// that is 8 operations per byte of halves, so memory is the limit. To keep memory busy, a thread loads 16
// dimensions of a key, or 32 values, to registers ahead of their use. The 32 dimensions of a value that a
// warp computes share one scale. Lane l loads the scale of value l of these 32 values, and shuffles pass the
// scales to all lanes. Each shuffle passes two scales, because ptxas moves all shuffles before the
// multiply-adds. On sm_90, 32 separate scales plus 32 values do not fit into the 128 registers per thread
// that the launch bounds allow. The results of a slice take 4 * (head_dim + 2) bytes per row.
#include "kernels/cuda/attention/attention_launch.cuh"
#include "kernels/cuda/rows/quantize_rows.cuh"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPieceKeys = 256;  // one per thread
constexpr int kPieceTiles = kPieceKeys / kTileKeys;
constexpr int kKeysAhead = 16;
constexpr int kValuesAhead = 32;
constexpr int kLongHeadDims = kMaxHeadDim / kThreads;  // dimensions of a thread
static_assert(kThreads == kPieceKeys && kThreads >= kMaxTileDim && kSliceKeys % kPieceKeys == 0);
static_assert(kSliceKeys % kTileKeys == 0 && kMaxHeadDim % kThreads == 0);
static_assert(kKvGroup % kKeysAhead == 0 && kKvGroup == 32 &&
              kValuesAhead == 32);  // for KvType::kQ8: the lanes of a warp

/// The shared memory of a thread block.
template <int kRows>
struct Exchange {
  Floats<kRows>* q;       // [head_dim]
  Floats<kRows>* scores;  // [kPieceKeys], then p
  float (*largest)[kPieceTiles];
  float (*shrink)[kPieceTiles];
  float (*sum)[kPieceTiles];
};

/// Keys [first, end) of a sequence, for one key/value head.
template <KvType kType>
struct Keys {
  const int32_t* blocks;
  CachedHead<kType> head;
  int head_dim;
  float soft_cap;
  int first;
  int end;
};

/// Computes the scores of one key for all rows.
template <int kRows, KvType kType>
__device__ Floats<kRows> score_key(const Keys<kType>& keys, int position, const Floats<kRows>* q) {
  using Number = typename KvStored<kType>::Number;
  Floats<kRows> sums;
  const bool seen = position >= keys.first && position < keys.end;
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) sums.at[r] = seen ? 0.0f : minus_infinity();
  if (!seen) return sums;
  const int64_t block = keys.blocks[position / kBlockKeys];
  const Number* k = keys.head.k + block * keys.head.block_stride + position % kBlockKeys;
  const uint16_t* scales = nullptr;
  if constexpr (kType == KvType::kQ8) scales = keys.head.key_scales(block) + position % kBlockKeys;
  int d = 0;
  for (; d + kKeysAhead <= keys.head_dim; d += kKeysAhead, k += kKeysAhead * kBlockKeys) {
    Number ahead[kKeysAhead];
    float scale = 1.0f;
    if constexpr (kType == KvType::kQ8) scale = widen(scales[d / kKvGroup * kBlockKeys]);
    GPU_UNROLL
    for (int i = 0; i < kKeysAhead; ++i) ahead[i] = k[i * kBlockKeys];
    GPU_UNROLL
    for (int i = 0; i < kKeysAhead; ++i) {
      const float key = cached<kType>(ahead[i], scale);
      const Floats<kRows> row = q[d + i];
      GPU_UNROLL
      for (int r = 0; r < kRows; ++r) sums.at[r] = __fmaf_rn(row.at[r], key, sums.at[r]);
    }
  }
  if constexpr (kType == KvType::kF16) {  // other types have whole groups
    for (; d < keys.head_dim; ++d, k += kBlockKeys) {
      const float key = widen(*k);
      GPU_UNROLL
      for (int r = 0; r < kRows; ++r) sums.at[r] = __fmaf_rn(q[d].at[r], key, sums.at[r]);
    }
  }
  if (keys.soft_cap > 0.0f) {
    GPU_UNROLL
    for (int r = 0; r < kRows; ++r) sums.at[r] = capped(sums.at[r], keys.soft_cap);
  }
  return sums;
}

/// Replaces the scores of 256 keys by p. For each tile of these keys, computes `shrink` and the sum of p.
/// `largest`: the largest score so far of each of this thread's rows.
template <int kRows, int kPasses>
__device__ void soften(const Exchange<kRows>& shared, float (&largest)[kPasses]) {
  const int thread = static_cast<int>(threadIdx.x);
  const int tile = thread / 16 % kPieceTiles;
  const int lane = thread % 16;
  const int first_row = thread / kTileKeys;  // 4 tiles of 16 lanes are 64 threads per row
  constexpr int kRowsAtOnce = kThreads / (16 * kPieceTiles);
  const auto score = [&](int row, int i) -> float& {
    return shared.scores[tile * kTileKeys + 16 * i + lane].at[row];
  };
  float s[kPasses][4];
  GPU_UNROLL
  for (int pass = 0; pass < kPasses; ++pass) {
    const int row = first_row + pass * kRowsAtOnce;
    if (row >= kRows) break;
    float best = minus_infinity();
    GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      s[pass][i] = score(row, i);
      best = larger(best, s[pass][i]);
    }
    best = largest_of_16(best);
    if (lane == 0) shared.largest[row][tile] = best;
  }
  __syncthreads();
  GPU_UNROLL
  for (int pass = 0; pass < kPasses; ++pass) {
    const int row = first_row + pass * kRowsAtOnce;
    if (row >= kRows) break;
    float before = largest[pass], now = before;
    GPU_UNROLL
    for (int i = 0; i < kPieceTiles; ++i) {
      const float next = larger(largest[pass], shared.largest[row][i]);
      before = i == tile ? largest[pass] : before;
      now = i == tile ? next : now;
      largest[pass] = next;
    }
    float p[4];
    GPU_UNROLL
    for (int i = 0; i < 4; ++i) score(row, i) = p[i] = exponential(__fsub_rn(s[pass][i], now));
    const float sum = sum_of_16(__fadd_rn(__fadd_rn(__fadd_rn(p[0], p[1]), p[2]), p[3]));
    if (lane == 0) {
      shared.sum[row][tile] = sum;
      shared.shrink[row][tile] = exponential(__fsub_rn(before, now));
    }
  }
}

/// weighted += p * v in one dimension, for keys [begin + skip, begin + count). kWhole: ignores `skip` and
/// `count`, and processes the kValuesAhead keys that begin at `begin`.
template <int kRows, bool kWhole, KvType kType>
__device__ void add_values(const Keys<kType>& keys, int begin, int skip, int count, int dim,
                           const Floats<kRows>* p, float (&weighted)[kRows]) {
  using Number = typename KvStored<kType>::Number;
  Number ahead[kValuesAhead];
  unsigned lane_scales = 0;  // in even lanes: two halves, the scales of values `lane` and `lane + 1`
  if constexpr (kType == KvType::kQ8) {
    const int key = static_cast<int>(threadIdx.x) % kValuesAhead;
    if (kWhole || (key >= skip && key < count)) {
      const int position = begin + key;
      const int64_t place = int64_t{position % kBlockKeys} * (keys.head_dim / kKvGroup) + dim / kKvGroup;
      lane_scales = keys.head.value_scales(keys.blocks[position / kBlockKeys])[place];
    }
    lane_scales |= __shfl_xor_sync(0xffffffffu, lane_scales, 1) << 16;
  }
  GPU_UNROLL
  for (int block = 0; block < kValuesAhead / kBlockKeys; ++block) {
    const int first = begin + block * kBlockKeys;
    const bool seen = kWhole || (first < begin + count && first + kBlockKeys > begin + skip);
    const int64_t number = seen ? keys.blocks[first / kBlockKeys] : 0;
    const Number* v = keys.head.v + number * keys.head.block_stride + dim;
    GPU_UNROLL
    for (int i = 0; i < kBlockKeys; ++i) {
      const int key = block * kBlockKeys + i;
      ahead[key] = kWhole || (key >= skip && key < count) ? *v : Number{0};
      v += keys.head_dim;
    }
  }
  unsigned scales = 0;
  GPU_UNROLL
  for (int key = 0; key < kValuesAhead; ++key) {
    if (!kWhole && key >= count) break;
    if constexpr (kType == KvType::kQ8) {
      if (key % 2 == 0) scales = __shfl_sync(0xffffffffu, lane_scales, key);
    }
    if (!kWhole && key < skip) continue;
    float scale = 1.0f;
    if constexpr (kType == KvType::kQ8) scale = widen(static_cast<uint16_t>(scales >> (key % 2 * 16)));
    const float value = cached<kType>(ahead[key], scale);
    const Floats<kRows> row = p[key];
    GPU_UNROLL
    for (int r = 0; r < kRows; ++r) weighted[r] = __fmaf_rn(row.at[r], value, weighted[r]);
  }
}

/// A thread's part of the softmax state: the weighted sums of dimensions threadIdx.x + i * kThreads for all
/// rows, and the state of row threadIdx.x.
template <int kRows, int kDims>
struct Softmax {
  float weighted[kDims][kRows];
  RowState state;
};

/// Adds the values of a tile of keys to the sums of one dimension. `begin`: the position of the first of the
/// 256 keys in p.
template <int kRows, KvType kType>
__device__ void add_tile(const Keys<kType>& keys, int begin, int tile, int dim, const Exchange<kRows>& shared,
                         float (&weighted)[kRows]) {
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) weighted[r] = __fmul_rn(weighted[r], shared.shrink[r][tile]);
  for (int i = tile * kTileKeys; i < (tile + 1) * kTileKeys; i += kValuesAhead) {
    const int skip = keys.first - begin - i;
    const int count = keys.end - begin - i;
    if (skip <= 0 && count >= kValuesAhead) {
      add_values<kRows, true, kType>(keys, begin + i, skip, count, dim, shared.scores + i, weighted);
    } else if (skip < kValuesAhead && count > 0) {
      add_values<kRows, false, kType>(keys, begin + i, skip, count, dim, shared.scores + i, weighted);
    }
  }
}

/// Processes the keys of one slice from `begin` on.
template <int kRows, int kDims, KvType kType>
__device__ void attend_slice(const Keys<kType>& keys, int begin, const Exchange<kRows>& shared,
                             Softmax<kRows, kDims>& result) {
  constexpr int kPasses = (kRows + 3) / 4;
  const int thread = static_cast<int>(threadIdx.x);
  float largest[kPasses];
  for (float& each : largest) each = minus_infinity();
  GPU_UNROLL
  for (int c = 0; c < kDims; ++c) {
    GPU_UNROLL
    for (int r = 0; r < kRows; ++r) result.weighted[c][r] = 0.0f;
  }
  result.state = {minus_infinity(), 0.0f};
  begin = max(begin, keys.first / kTileKeys * kTileKeys);
  for (; begin < keys.end; begin += kPieceKeys) {
    shared.scores[thread] = score_key<kRows, kType>(keys, begin + thread, shared.q);
    __syncthreads();
    soften<kRows, kPasses>(shared, largest);
    __syncthreads();
    for (int tile = 0; tile < kPieceTiles; ++tile) {
      if (thread < kRows) {
        result.state.largest = larger(result.state.largest, shared.largest[thread][tile]);
        result.state.sum =
            __fadd_rn(__fmul_rn(result.state.sum, shared.shrink[thread][tile]), shared.sum[thread][tile]);
      }
      GPU_UNROLL
      for (int c = 0; c < kDims; ++c) {
        const int dim = thread + c * kThreads;
        if (dim < keys.head_dim) add_tile<kRows, kType>(keys, begin, tile, dim, shared, result.weighted[c]);
      }
    }
    __syncthreads();  // all threads must have read these scores before the next ones are written
  }
}

/// Whether attention_tiles() skips this token.
__device__ bool is_lone(const AttentionCall& call, int token) {
  return begins_run(call, token) && (token + 1 == call.places.n_tokens || begins_run(call, token + 1));
}

/// Loads the queries of all rows and multiplies them by the scale. Rows beyond the part's heads are set to 0.
template <int kRows>
__device__ void load_queries(const AttentionCall& call, const HeadPart& part, int token, Floats<kRows>* q) {
  const int head_dim = call.shape.head_dim;
  const float scale = query_scale(call, token);
  const float* from = call.q + token * call.stride + int64_t{part.first_head} * head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * head_dim; i += kThreads) {
    const int row = i / head_dim;
    q[i - row * head_dim].at[row] = row < part.n_heads ? __fmul_rn(from[i], scale) : 0.0f;
  }
}

/// Stores a slice's results where join_slices() reads them. first: the part's first row.
template <int kRows, int kDims>
__device__ void keep_slice(const SliceResults& results, int64_t first, int n_rows, int slice, int head_dim,
                           const Softmax<kRows, kDims>& softmax) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < n_rows) {
    float* state = results.state + 2 * ((first + thread) * results.n_slices + slice);
    state[0] = softmax.state.largest;
    state[1] = softmax.state.sum;
  }
  GPU_UNROLL
  for (int c = 0; c < kDims; ++c) {
    const int dim = thread + c * kThreads;
    if (dim >= head_dim) return;
    GPU_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (r >= n_rows) break;
      results.weighted[((first + r) * results.n_slices + slice) * head_dim + dim] = softmax.weighted[c][r];
    }
  }
}

/// Writes one number of `out`, and also its quantized form if the call requests it.
__device__ __forceinline__ void write(const AttentionCall& call, int64_t i, float value) {
  call.out[i] = value;
  if (call.quantized.high != nullptr) quantize_own(value, i, call.quantized);
}

/// Every thread block calls this after its slice. The last thread block to finish joins the slices of the
/// part's rows, in order.
template <int kRows>
__device__ void join_slices(const AttentionCall& call, const SliceResults& results, const HeadPart& part,
                            int64_t first, int n_slices) {
  __shared__ JoinFactors factors[kRows][kMaxSlices + 1];  // the last one is for the sink
  __shared__ float sums[kRows];
  __shared__ bool is_last;
  const int thread = static_cast<int>(threadIdx.x), head_dim = call.shape.head_dim;
  __syncthreads();
  if (thread == 0) {
    const int64_t token = first / call.n_heads;
    uint32_t* done = results.done + token * gridDim.y + blockIdx.y;
    is_last = gpu_arrive(done) + 1 == static_cast<unsigned>(n_slices);
    if (is_last) *done = 0;
  }
  __syncthreads();
  if (!is_last) return;
  const int n_joins = call.scores.sinks != nullptr ? n_slices + 1 : n_slices;
  if (thread < part.n_heads) {
    const float* state = results.state + 2 * (first + thread) * results.n_slices;
    RowState total{state[0], state[1]};
    for (int slice = 1; slice < n_slices; ++slice)
      factors[thread][slice] = join(total, {state[2 * slice], state[2 * slice + 1]});
    if (n_joins > n_slices)
      factors[thread][n_slices] = join_sink(total, call.scores.sinks[part.first_head + thread]);
    sums[thread] = total.sum;
  }
  __syncthreads();
  for (int i = thread; i < part.n_heads * head_dim; i += kThreads) {
    const int row = i / head_dim, dim = i - row * head_dim;
    const float* weighted = results.weighted + (first + row) * results.n_slices * head_dim + dim;
    float sum = weighted[0];
    for (int slice = 1; slice < n_joins; ++slice) {
      const float later = slice < n_slices ? weighted[int64_t{slice} * head_dim] : 0.0f;
      sum = join_weighted(sum, later, factors[row][slice]);
    }
    write(call, first * head_dim + i, __fdiv_rn(sum, sums[row]));
  }
}

/// Writes each row's weighted sums divided by the row's entry of `sums`, which is in shared memory. first:
/// the part's first row.
template <int kRows, int kDims>
__device__ void write_out(const AttentionCall& call, int64_t first, int n_rows, int head_dim,
                          const float (&sums)[kRows], const Softmax<kRows, kDims>& softmax) {
  GPU_UNROLL
  for (int c = 0; c < kDims; ++c) {
    const int dim = static_cast<int>(threadIdx.x) + c * kThreads;
    if (dim >= head_dim) return;
    GPU_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (r < n_rows) write(call, (first + r) * head_dim + dim, __fdiv_rn(softmax.weighted[c][r], sums[r]));
    }
  }
}

/// kDims: dimensions per thread. blockIdx.x selects a token and, with kSplit, one of the slices that the
/// token sees. Two thread blocks share a multiprocessor, except if kSplit is false and kDims > 1: then a
/// thread's two softmax states need more than half of the registers.
template <int kRows, int kDims, bool kSplit, KvType kType>
__global__ void __launch_bounds__(kThreads, kDims > 1 && !kSplit ? 1 : 2)
    attention_rows_kernel(AttentionCall call, SliceResults results, bool only_lone) {
  __shared__ Floats<kRows> q[kDims * kThreads], scores[kPieceKeys];
  __shared__ float largest[kRows][kPieceTiles], shrink[kRows][kPieceTiles], sum[kRows][kPieceTiles];
  const Exchange<kRows> shared{q, scores, largest, shrink, sum};
  const int thread = static_cast<int>(threadIdx.x);
  const int blocks_per_token = kSplit ? results.n_slices : 1;
  const int token = static_cast<int>(blockIdx.x) / blocks_per_token;
  const int number = static_cast<int>(blockIdx.x) % blocks_per_token;  // number of its slice
  const int n_keys = n_keys_of(call, token);
  const int seen_from = call.scores.first_seen(n_keys);
  const int slice_tokens = slice_tokens_for(n_keys, call.scores);
  const int first = (seen_from / slice_tokens + number) * slice_tokens;
  if (first >= n_keys || (only_lone && !is_lone(call, token))) return;

  const HeadPart part = head_part(call);
  const int head_dim = call.shape.head_dim;
  load_queries<kRows>(call, part, token, q);
  __syncthreads();
  Keys<kType> keys{block_table(call, token),
                   cached_head<kType>(call, part),
                   head_dim,
                   call.scores.soft_cap,
                   seen_from,
                   n_keys};
  const int64_t first_row = int64_t{token} * call.n_heads + part.first_head;
  __shared__ JoinFactors joins[kRows];
  Softmax<kRows, kDims> total{};
  const auto join_weights = [&](const Softmax<kRows, kDims>& later) {
    GPU_UNROLL
    for (int c = 0; c < kDims; ++c) {
      GPU_UNROLL
      for (int r = 0; r < kRows; ++r)
        total.weighted[c][r] = join_weighted(total.weighted[c][r], later.weighted[c][r], joins[r]);
    }
  };
  for (int begin = first; begin < n_keys && (!kSplit || begin == first); begin += slice_tokens) {
    keys.end = min(begin + slice_tokens, n_keys);
    Softmax<kRows, kDims> slice;
    attend_slice<kRows, kDims, kType>(keys, begin, shared, slice);
    if (begin == first) {
      total = slice;
      continue;
    }
    if (thread < kRows) joins[thread] = join(total.state, slice.state);
    __syncthreads();
    join_weights(slice);
  }
  if (kSplit) {
    keep_slice<kRows, kDims>(results, first_row, part.n_heads, number, head_dim, total);
    join_slices<kRows>(call, results, part, first_row,
                       (n_keys + slice_tokens - 1) / slice_tokens - seen_from / slice_tokens);
    return;
  }
  if (call.scores.sinks != nullptr) {
    __syncthreads();  // all threads must have read the last slice's factors before they are overwritten
    if (thread < part.n_heads)
      joins[thread] = join_sink(total.state, call.scores.sinks[part.first_head + thread]);
    __syncthreads();
    join_weights({});
  }
  __shared__ float sums[kRows];
  if (thread < kRows) sums[thread] = total.state.sum;
  __syncthreads();
  write_out<kRows, kDims>(call, first_row, part.n_heads, head_dim, sums, total);
}

using AttentionRowsKernel = const GpuKernel<void(AttentionCall, SliceResults, bool)>;

/// Returns the kernel for these rows and dimensions.
template <int kRows, int kDims, KvType kType>
AttentionRowsKernel& rows_kernel(bool split) {
  return split ? gpu_kernel<attention_rows_kernel<kRows, kDims, true, kType>>
               : gpu_kernel<attention_rows_kernel<kRows, kDims, false, kType>>;
}

template <int kRows, int kDims>
void launch(const AttentionCall& call, const SliceResults& results, bool only_lone, cudaStream_t stream) {
  const bool split = results.n_slices > 0;
  const int blocks_per_token = split ? results.n_slices : 1;
  const dim3 grid(static_cast<unsigned>(call.places.n_tokens * blocks_per_token),
                  static_cast<unsigned>(call.shape.n_kv_heads * call.n_parts));
  AttentionRowsKernel& kernel = call.shape.type == KvType::kQ8
                                    ? rows_kernel<kRows, kDims, KvType::kQ8>(split)
                                    : rows_kernel<kRows, kDims, KvType::kF16>(split);
  check(gpu_launch(
            [=] {
              KernelWork work = attention_work(call, only_lone ? Attended::kLone : Attended::kAll);
              const int64_t rows = int64_t{call.places.n_tokens} * call.n_heads;
              if (split) work.bytes += floats(rows * (results.n_slices + 1) * call.shape.head_dim);
              return work;
            },
            kernel, grid, kThreads, 0, stream, call, results, only_lone),
        "attending");
}

}  // namespace

void attention_rows(const AttentionCall& call, const SliceResults& results, bool only_lone,
                    cudaStream_t stream) {
  const bool long_heads = call.shape.head_dim > kThreads;
  if (call.part_heads > kMaxLongPartHeads) {
    launch<8, 1>(call, results, only_lone, stream);
  } else if (call.part_heads > 2) {
    (long_heads ? launch<4, kLongHeadDims> : launch<4, 1>)(call, results, only_lone, stream);
  } else if (call.part_heads > 1) {
    (long_heads ? launch<2, kLongHeadDims> : launch<2, 1>)(call, results, only_lone, stream);
  } else {
    (long_heads ? launch<1, kLongHeadDims> : launch<1, 1>)(call, results, only_lone, stream);
  }
}

}  // namespace hearth::cuda
