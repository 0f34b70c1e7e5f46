// Attention of a prompt: consecutive tokens of a sequence are processed together. See attention_launch.cuh
// for the arithmetic.
//
// A thread block processes a run of tokens with some of the query heads of a key/value head: up to 32 rows
// (pairs of a token and a query head), or 16 if heads are longer than 128. Its four warps have separate rows
// and never wait for each other. They share the L1 cache, which loads a tile of 64 keys once for all of them.
// In a warp:
//   1. scores: lane l of each half-warp computes keys l, 16+l, 32+l, 48+l for half of the rows. These are the
//      keys that one lane of the CPU adds up, so the softmax stays in a lane's registers until the 16 lanes
//      are added
//   2. p and shrink go to shared memory
//   3. values: a lane computes a few neighboring dimensions of all the warp's rows, with the keys in order
// Each key and dimension takes 4 operations per row and 4 bytes in all, which is 32 operations per byte with
// 32 rows, so arithmetic is the limit. Scores need 5 loads for every 16 fused multiply-adds, and values need
// 3 loads for every 32. With KvType::kQ8, each number is also multiplied by its scale, once for all of a
// warp's rows. All state is in registers and shared memory. On an H200, a step of 512 tokens after 1,536
// earlier tokens runs at 16 % of the instruction-bound speed with 32 key/value heads, and at 24 % with 8
// key/value heads for 64 query heads (tests/data/measured/h200).
#include "kernels/cuda/attention/attention_launch.cuh"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kLanes = 32;
constexpr int kTileBlocks = kTileKeys / kBlockKeys;
constexpr int kDimsAhead = 4;  // dimensions of keys to load ahead
constexpr int kKeysAhead = 4;  // keys whose values are loaded ahead
constexpr unsigned kAllLanes = 0xffffffffu;

/// The shared memory of a warp.
template <int kMaxDim, int kRows>
struct alignas(16) WarpMemory {
  Floats<kRows / 2> q[kMaxDim][2];  // for the rows of both halves
  Floats<kRows / 2> p[kTileKeys][2];
  Floats<kRows / 2> shrink[2];  // then the sums
  JoinFactors join[kRows];
  int32_t firsts[kRows];  // row r sees positions [firsts[r], limits[r]); both arrays are ascending
  int32_t limits[kRows];
};

/// The keys and values that a warp's rows read. kPlain: the scores have no window, cap or sink. Plain kernels
/// omit the code for these, because its registers would reduce the number of warps per multiprocessor.
template <bool kPlain, KvType kType>
struct Warp {
  const int32_t* blocks;
  CachedHead<kType> head;
  int head_dim;
  int lane;
  int half;
  int first;        // first key of its first row
  int last_first;   // first key of its last row
  int first_limit;  // end of the keys of its first row
  int end;          // end of the keys of its last row
  float soft_cap;

  /// Whether a window hides some keys of the tile at `begin` from some rows.
  __device__ bool window_hides(int begin) const { return !kPlain && begin < last_first; }
};

/// The keys of a tile that are hidden from some of the rows.
enum class Edge {
  kNone,
  kEnd,   // keys from a row's limit on
  kBoth,  // keys from a row's limit on, and keys before a row's window
};

/// The softmax state of a lane's rows, which are all rows of its half of the warp.
template <int kHalfRows>
struct HalfState {
  RowState row[kHalfRows];
};

/// Computes the scores of the lane's four keys of the tile for the lane's rows.
template <int kMaxDim, int kRows, bool kPlain, KvType kType>
__device__ void score_tile(const Warp<kPlain, kType>& warp, int begin,
                           const WarpMemory<kMaxDim, kRows>& memory,
                           float (&scores)[kRows / 2][kTileBlocks]) {
  using Number = typename KvStored<kType>::Number;
  const Number* k[kTileBlocks];
  const uint16_t* scales[kTileBlocks] = {};
  GPU_UNROLL
  for (int b = 0; b < kTileBlocks; ++b) {
    // If no key of this KV block is visible, read a visible KV block instead; its scores are discarded below.
    const int before_end = min(begin + b * kBlockKeys, warp.end - 1);
    const int position = kPlain ? before_end : max(before_end, warp.first);
    const int64_t block = warp.blocks[position / kBlockKeys];
    k[b] = warp.head.k + block * warp.head.block_stride + warp.lane % 16;
    if constexpr (kType == KvType::kQ8) scales[b] = warp.head.key_scales(block) + warp.lane % 16;
    GPU_UNROLL
    for (int r = 0; r < kRows / 2; ++r) scores[r][b] = 0.0f;
  }
  float scale[kTileBlocks];  // scale of the current group of dimensions
  GPU_UNROLL
  for (int b = 0; b < kTileBlocks; ++b) scale[b] = 1.0f;
  const auto add = [&](int d, const Number(&keys)[kTileBlocks]) {
    const Floats<kRows / 2> q = memory.q[d][warp.half];
    GPU_UNROLL
    for (int b = 0; b < kTileBlocks; ++b) {
      const float key = cached<kType>(keys[b], scale[b]);
      GPU_UNROLL
      for (int r = 0; r < kRows / 2; ++r) scores[r][b] = __fmaf_rn(q.at[r], key, scores[r][b]);
    }
  };
  int d = 0;
  for (; d + kDimsAhead <= warp.head_dim; d += kDimsAhead) {
    if constexpr (kType == KvType::kQ8) {
      if (d % kKvGroup == 0) {
        GPU_UNROLL
        for (int b = 0; b < kTileBlocks; ++b) scale[b] = widen(scales[b][d / kKvGroup * kBlockKeys]);
      }
    }
    Number ahead[kDimsAhead][kTileBlocks];
    GPU_UNROLL
    for (int i = 0; i < kDimsAhead; ++i) {
      GPU_UNROLL
      for (int b = 0; b < kTileBlocks; ++b) ahead[i][b] = k[b][(d + i) * kBlockKeys];
    }
    GPU_UNROLL
    for (int i = 0; i < kDimsAhead; ++i) add(d + i, ahead[i]);
  }
  if constexpr (kType == KvType::kF16) {  // other types have whole groups
    for (; d < warp.head_dim; ++d) {
      Number keys[kTileBlocks];
      GPU_UNROLL
      for (int b = 0; b < kTileBlocks; ++b) keys[b] = k[b][d * kBlockKeys];
      add(d, keys);
    }
  }
  if (!kPlain && warp.soft_cap > 0.0f) {
    GPU_UNROLL
    for (int r = 0; r < kRows / 2; ++r) {
      GPU_UNROLL
      for (int b = 0; b < kTileBlocks; ++b) scores[r][b] = capped(scores[r][b], warp.soft_cap);
    }
  }
  if (begin + kTileKeys <= warp.first_limit && !warp.window_hides(begin)) return;
  GPU_UNROLL
  for (int r = 0; r < kRows / 2; ++r) {
    const int first = memory.firsts[warp.half * (kRows / 2) + r];
    const int limit = memory.limits[warp.half * (kRows / 2) + r];
    GPU_UNROLL
    for (int b = 0; b < kTileBlocks; ++b) {
      const int position = begin + b * kBlockKeys + warp.lane % 16;
      if ((!kPlain && position < first) || position >= limit) scores[r][b] = minus_infinity();
    }
  }
}

/// Replaces the scores by p, stores p and shrink for all lanes, and updates the state of the rows. If a row's
/// window begins after the tile, its p, shrink and sum are 0 and its largest score stays -infinity.
template <int kMaxDim, int kRows, bool kPlain, KvType kType>
__device__ void soften(const Warp<kPlain, kType>& warp, int begin, float (&scores)[kRows / 2][kTileBlocks],
                       HalfState<kRows / 2>& state, WarpMemory<kMaxDim, kRows>& memory) {
  Floats<kRows / 2> shrinks;
  GPU_UNROLL
  for (int r = 0; r < kRows / 2; ++r) {
    float(&p)[kTileBlocks] = scores[r];
    RowState& row = state.row[r];
    const float best = largest_of_16(larger(larger(p[0], p[1]), larger(p[2], p[3])));
    const float now = larger(row.largest, best);
    const bool unseen =
        warp.window_hides(begin) && begin + kTileKeys <= memory.firsts[warp.half * (kRows / 2) + r];
    const float base = unseen ? 0.0f : now;  // -infinity minus itself is NaN
    GPU_UNROLL
    for (int b = 0; b < kTileBlocks; ++b) p[b] = exponential(__fsub_rn(p[b], base));
    const float sum = sum_of_16(__fadd_rn(__fadd_rn(__fadd_rn(p[0], p[1]), p[2]), p[3]));
    shrinks.at[r] = exponential(__fsub_rn(row.largest, base));
    row.sum = __fadd_rn(__fmul_rn(row.sum, shrinks.at[r]), sum);
    row.largest = now;
  }
  GPU_UNROLL
  for (int b = 0; b < kTileBlocks; ++b) {
    Floats<kRows / 2> column;
    GPU_UNROLL
    for (int r = 0; r < kRows / 2; ++r) column.at[r] = scores[r][b];
    memory.p[b * kBlockKeys + warp.lane % 16][warp.half] = column;
  }
  if (warp.lane % 16 == 0) memory.shrink[warp.half] = shrinks;
}

/// Loads the values of kDims neighboring dimensions. Values beyond the end of the head are undefined.
/// aligned: whether head_dim is a multiple of kDims.
template <int kDims, class Number>
__device__ Packed<kDims, Number> load_values(const Number* v, int dim, int head_dim, bool aligned) {
  if (aligned) return *gpu_aligned<Packed<kDims, Number>>(v + min(dim, head_dim - kDims));
  Packed<kDims, Number> values;
  GPU_UNROLL
  for (int c = 0; c < kDims; ++c) values.at[c] = v[min(dim + c, head_dim - 1)];
  return values;
}

/// weighted = weighted * shrink + the sum of p * v over the tile.
template <Edge kEdge, int kDims, int kMaxDim, int kRows, bool kPlain, KvType kType>
__device__ void add_values(const Warp<kPlain, kType>& warp, int begin,
                           const WarpMemory<kMaxDim, kRows>& memory, float (&weighted)[kRows][kDims]) {
  using Number = typename KvStored<kType>::Number;
  const bool aligned = kType == KvType::kQ8 || warp.head_dim % kDims == 0;
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const float shrink = memory.shrink[r / (kRows / 2)].at[r % (kRows / 2)];
    GPU_UNROLL
    for (int c = 0; c < kDims; ++c) weighted[r][c] = __fmul_rn(weighted[r][c], shrink);
  }
  const int end = kEdge == Edge::kNone ? begin + kTileKeys : min(begin + kTileKeys, warp.end);
  const int start = kEdge == Edge::kBoth ? max(begin, warp.first / kKeysAhead * kKeysAhead) : begin;
  for (int first = start; first < end; first += kKeysAhead) {
    const int64_t block = warp.blocks[first / kBlockKeys];
    const Number* v =
        warp.head.v + block * warp.head.block_stride + int64_t{first % kBlockKeys} * warp.head_dim;
    Packed<kDims, Number> ahead[kKeysAhead];
    float scales[kKeysAhead] = {};
    GPU_UNROLL
    for (int i = 0; i < kKeysAhead; ++i)
      ahead[i] = load_values<kDims>(v + i * warp.head_dim, warp.lane * kDims, warp.head_dim, aligned);
    if constexpr (kType == KvType::kQ8) {
      const int n_groups = warp.head_dim / kKvGroup;
      const uint16_t* scale = warp.head.value_scales(block) + (first % kBlockKeys) * n_groups +
                              min(warp.lane * kDims / kKvGroup, n_groups - 1);
      GPU_UNROLL
      for (int i = 0; i < kKeysAhead; ++i) scales[i] = widen(scale[i * n_groups]);
    }
    GPU_UNROLL
    for (int i = 0; i < kKeysAhead; ++i) {
      const int position = first + i;
      const Floats<kRows / 2> p[2] = {memory.p[position - begin][0], memory.p[position - begin][1]};
      GPU_UNROLL
      for (int c = 0; c < kDims; ++c) {
        const float value = cached<kType>(ahead[i].at[c], scales[i]);
        GPU_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const float next = __fmaf_rn(p[r / (kRows / 2)].at[r % (kRows / 2)], value, weighted[r][c]);
          const bool hidden = (kEdge != Edge::kNone && position >= memory.limits[r]) ||
                              (kEdge == Edge::kBoth && position < memory.firsts[r]);
          weighted[r][c] = hidden ? weighted[r][c] : next;
        }
      }
    }
  }
}

/// Merges the slice of keys [begin, end) into the total of all earlier slices. Skips rows that see no key of
/// this slice. A row's first slice is copied, because merging it could turn -0 into 0.
template <int kDims, int kMaxDim, int kRows, bool kPlain, KvType kType>
__device__ void join_slice(const Warp<kPlain, kType>& warp, int begin, int end, HalfState<kRows / 2>& total,
                           const HalfState<kRows / 2>& slice, float (&total_weighted)[kRows][kDims],
                           const float (&weighted)[kRows][kDims], WarpMemory<kMaxDim, kRows>& memory) {
  GPU_UNROLL
  for (int r = 0; r < kRows / 2; ++r) {
    const int row = warp.half * (kRows / 2) + r;
    if (memory.limits[row] <= begin || (!kPlain && memory.firsts[row] >= end)) continue;
    const JoinFactors factors = join(total.row[r], slice.row[r]);
    if (warp.lane % 16 == 0) memory.join[row] = factors;
  }
  __syncwarp();
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (memory.limits[r] <= begin || (!kPlain && memory.firsts[r] >= end)) continue;
    const JoinFactors factors = memory.join[r];
    const bool joins = kPlain || memory.firsts[r] < begin;
    GPU_UNROLL
    for (int c = 0; c < kDims; ++c) {
      const float joined = join_weighted(total_weighted[r][c], weighted[r][c], factors);
      total_weighted[r][c] = joins ? joined : weighted[r][c];
    }
  }
}

/// The token and the query head of a row.
struct RowPlace {
  int token;
  int head;
};
__device__ RowPlace place_of(const HeadPart& part, int first_token, int row) {
  return {first_token + row / part.n_heads, part.first_head + row % part.n_heads};
}

/// Merges the sinks of the rows' heads, if the model has sinks.
template <int kDims, int kMaxDim, int kRows, bool kPlain, KvType kType>
__device__ void join_sinks(const AttentionCall& call, const HeadPart& part, const Warp<kPlain, kType>& warp,
                           int first_row, HalfState<kRows / 2>& total, float (&total_weighted)[kRows][kDims],
                           WarpMemory<kMaxDim, kRows>& memory) {
  if (kPlain || call.scores.sinks == nullptr) return;
  __syncwarp();  // all lanes must have read the last slice's factors before they are overwritten
  GPU_UNROLL
  for (int r = 0; r < kRows / 2; ++r) {
    const int row = warp.half * (kRows / 2) + r;
    const JoinFactors factors =
        join_sink(total.row[r], call.scores.sinks[place_of(part, 0, first_row + row).head]);
    if (warp.lane % 16 == 0) memory.join[row] = factors;
  }
  __syncwarp();
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const JoinFactors factors = memory.join[r];
    GPU_UNROLL
    for (int c = 0; c < kDims; ++c) total_weighted[r][c] = join_weighted(total_weighted[r][c], 0.0f, factors);
  }
}

/// Loads the warp's queries multiplied by the scale, and the range of keys that each row sees. Rows beyond
/// the run get queries of 0 and the key range of the last row.
template <int kMaxDim, int kRows>
__device__ void load_queries(const AttentionCall& call, const HeadPart& part, int first_token, int first_row,
                             int n_rows, int lane, WarpMemory<kMaxDim, kRows>& memory) {
  const int head_dim = call.shape.head_dim;
  for (int r = 0; r < kRows; ++r) {
    const bool real = first_row + r < n_rows;
    const RowPlace place = place_of(part, first_token, real ? first_row + r : n_rows - 1);
    const float scale = query_scale(call, place.token);
    const float* q = call.q + place.token * call.stride + int64_t{place.head} * head_dim;
    for (int d = lane; d < head_dim; d += kLanes)
      memory.q[d][r / (kRows / 2)].at[r % (kRows / 2)] = real ? __fmul_rn(q[d], scale) : 0.0f;
    if (lane == 0) {
      const int n_keys = n_keys_of(call, place.token);
      memory.firsts[r] = call.scores.first_seen(n_keys);
      memory.limits[r] = n_keys;
    }
  }
}

/// Returns the number of tokens in the run that begins with `token`. All lanes must call it together.
__device__ int run_length(const AttentionCall& call, int token, int lane) {
  const int next = token + 1 + lane;
  const bool ends = next >= call.places.n_tokens || begins_run(call, next);
  return __ffs(static_cast<int>(__ballot_sync(kAllLanes, ends)));
}

template <int kDims, int kRows>
__device__ void write_out(const AttentionCall& call, const HeadPart& part, int first_token, int first_row,
                          int n_rows, int lane, const Floats<kRows / 2> (&sums)[2],
                          const float (&weighted)[kRows][kDims]) {
  const int head_dim = call.shape.head_dim;
  GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (first_row + r >= n_rows) break;
    const RowPlace place = place_of(part, first_token, first_row + r);
    float* out = call.out + (int64_t{place.token} * call.n_heads + place.head) * head_dim;
    const float sum = sums[r / (kRows / 2)].at[r % (kRows / 2)];
    GPU_UNROLL
    for (int c = 0; c < kDims; ++c) {
      const int dim = lane * kDims + c;
      if (dim < head_dim) out[dim] = __fdiv_rn(weighted[r][c], sum);
    }
  }
}

/// kRows: rows per warp. Lanes beyond the head's last dimension repeat its last dimensions and write nothing.
template <int kDims, int kRows, bool kPlain, KvType kType>
__global__ void __launch_bounds__(kWarps* kLanes, 2) attention_tiles_kernel(AttentionCall call) {
  constexpr int kMaxDim = kLanes * kDims;
  __shared__ WarpMemory<kMaxDim, kRows> memories[kWarps];
  const int first_token = static_cast<int>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp_number = static_cast<int>(threadIdx.x) / kLanes;
  if (!begins_run(call, first_token)) return;
  const int n_tokens = run_length(call, first_token, lane);
  const HeadPart part = head_part(call);
  const int n_rows = n_tokens * part.n_heads;
  const int first_row = warp_number * kRows;
  if (n_tokens == 1 || first_row >= n_rows) return;

  WarpMemory<kMaxDim, kRows>& memory = memories[warp_number];
  load_queries(call, part, first_token, first_row, n_rows, lane, memory);
  __syncwarp();
  const Warp<kPlain, kType> warp{block_table(call, first_token),
                                 cached_head<kType>(call, part),
                                 call.shape.head_dim,
                                 lane,
                                 lane / 16,
                                 kPlain ? 0 : memory.firsts[0],
                                 kPlain ? 0 : memory.firsts[kRows - 1],
                                 memory.limits[0],
                                 memory.limits[kRows - 1],
                                 call.scores.soft_cap};
  const int slice_tokens = slice_tokens_for(warp.end, kPlain ? AttentionScores() : call.scores);
  const int first_slice = warp.first / slice_tokens * slice_tokens;
  HalfState<kRows / 2> total{};
  float total_weighted[kRows][kDims];
  for (int slice = first_slice; slice < warp.end; slice += slice_tokens) {
    HalfState<kRows / 2> state;
    for (RowState& row : state.row) row = {minus_infinity(), 0.0f};
    float weighted[kRows][kDims] = {};
    const int first_tile = max(slice, warp.first / kTileKeys * kTileKeys);
    for (int begin = first_tile; begin < min(slice + slice_tokens, warp.end); begin += kTileKeys) {
      float scores[kRows / 2][kTileBlocks];
      score_tile(warp, begin, memory, scores);
      soften(warp, begin, scores, state, memory);
      __syncwarp();
      if (warp.window_hides(begin)) {
        add_values<Edge::kBoth>(warp, begin, memory, weighted);
      } else if (begin + kTileKeys <= warp.first_limit) {
        add_values<Edge::kNone>(warp, begin, memory, weighted);
      } else {
        add_values<Edge::kEnd>(warp, begin, memory, weighted);
      }
      __syncwarp();  // all lanes must have read p before the next tile overwrites it
    }
    if (slice > first_slice) {
      join_slice(warp, slice, slice + slice_tokens, total, state, total_weighted, weighted, memory);
      continue;
    }
    total = state;
    GPU_UNROLL
    for (int r = 0; r < kRows; ++r) {
      GPU_UNROLL
      for (int c = 0; c < kDims; ++c) total_weighted[r][c] = weighted[r][c];
    }
  }
  join_sinks(call, part, warp, first_row, total, total_weighted, memory);
  if (lane % 16 == 0) {
    GPU_UNROLL
    for (int r = 0; r < kRows / 2; ++r) memory.shrink[warp.half].at[r] = total.row[r].sum;
  }
  __syncwarp();
  write_out(call, part, first_token, first_row, n_rows, lane, memory.shrink, total_weighted);
}

using AttentionTilesKernel = const GpuKernel<void(AttentionCall)>;

template <bool kPlain, KvType kType>
AttentionTilesKernel& tiles_kernel(int head_dim) {
  if (head_dim <= 64) return gpu_kernel<attention_tiles_kernel<2, 8, kPlain, kType>>;
  if (head_dim <= 128) return gpu_kernel<attention_tiles_kernel<4, 8, kPlain, kType>>;
  return gpu_kernel<attention_tiles_kernel<8, 4, kPlain, kType>>;
}

template <KvType kType>
AttentionTilesKernel& tiles_kernel(const AttentionCall& call) {
  const AttentionScores& scores = call.scores;
  const bool plain = scores.window == 0 && scores.soft_cap == 0.0f && scores.sinks == nullptr;
  return plain ? tiles_kernel<true, kType>(call.shape.head_dim)
               : tiles_kernel<false, kType>(call.shape.head_dim);
}

}  // namespace

void attention_tiles(const AttentionCall& call, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(call.places.n_tokens),
                  static_cast<unsigned>(call.shape.n_kv_heads * call.n_parts));
  AttentionTilesKernel& kernel =
      call.shape.type == KvType::kQ8 ? tiles_kernel<KvType::kQ8>(call) : tiles_kernel<KvType::kF16>(call);
  check(gpu_launch([=] { return attention_work(call, Attended::kNeighbors); }, kernel, grid, kWarps * kLanes,
                   0, stream, call),
        "attending");
}

}  // namespace hearth::cuda
