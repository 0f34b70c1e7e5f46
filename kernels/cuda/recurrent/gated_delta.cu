// The gated delta rule, and the selective scan of Mamba-2, which has the same memory and order of sums.
//
// A thread block computes a group of columns of one value head for all tokens of a run, in order. A column
// has four threads. Each has the rows i of one of the four partial sums (i mod 4), so that the sums of the
// contract are chains within a thread, joined by two shuffles. For states of 64 and 128 rows, which nearly
// all published models have, the rows are in registers, and the state is read once and written once per run,
// whatever the number of tokens. For other states, the rows are in shared memory, and loads are not
// overlapped.
//
// Keys, queries, values and gates, among them a decay for each row if rows have their own, come through
// shared memory: while a thread block computes some tokens, it loads the next ones into registers. Replayed
// drafts pass the same way as tokens, but have only a key, a u and a decay. A draft changes only registers;
// its key, u and decay go to the log.
//
// Speed (estimated, not measured). Decoding is bound by the bytes of the state: each sequence reads and
// writes RecurrentShape::state_bytes() once per step and layer, 4 MiB together for 32 heads of 128. That is
// 256 thread blocks, whose loads are all under way at once. With eight or more sequences, the kernel should
// reach 80 to 90 % of the memory's rate. A single sequence takes some 3 us, because a read, two chains of 32
// fused multiply-adds and a write follow each other. On an H200, this is a third of the memory's rate. A
// prompt is bound by the chain from one token to the next: 32 multiply-adds, two shuffles and the update. For
// heads of 128, this chain takes some 250 clocks, for any number of heads up to two thread blocks per
// multiprocessor.
#include <stdexcept>
#include <string>

#include "kernels/cuda/ops/recurrent_ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kParts = 4;        // partial sums
constexpr int kWarpColumns = 8;  // lane l has part l / 8 of column l % 8

/// The sizes of a thread block. kRows: rows of a thread, if they are in registers; 0: they are in shared
/// memory.
template <int kRows>
struct Sizes {
  static constexpr bool kInRegisters = kRows > 0;
  static constexpr int kWarps = kInRegisters ? 2 : 1;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kColumns = kWarpColumns * kWarps;
  /// Blocks per group of columns as they are stored.
  static constexpr int kBlocks = RecurrentShape::kColumns / kColumns;
  /// Tokens that are staged together, and buffers for them.
  static constexpr int kTokens = kInRegisters ? 4 : 1;
  static constexpr int kBuffers = kInRegisters ? 2 : 1;
};

constexpr int rows_of_part(int n_rows, int part) { return (n_rows - part + kParts - 1) / kParts; }
/// Floats from one part of a staged key or query to the next. The parts of 16 or 32 rows begin 8, 16 and 24
/// banks apart, so that a warp's lanes write different banks, and so do the parts when they read four rows.
constexpr int part_stride(int n_rows) { return (rows_of_part(n_rows, 0) + 3) / 4 * 4 + 8; }

/// The effect of a token on the state.
enum class Rule : uint8_t {
  kDelta,      // the gated delta rule, with one decay for a head
  kRowDeltas,  // the same with a decay for each row (RecurrentShape::row_decays)
  kScan,       // the selective scan
};

template <int kRows, Rule kRule>
constexpr int buffer_floats(int n_rows) {
  using S = Sizes<kRows>;
  constexpr int kVectors = kRule == Rule::kRowDeltas ? 3 : 2;  // keys, queries and decays
  return S::kTokens * (kVectors * kParts * part_stride(n_rows) + S::kColumns + 2);
}
template <int kRows, Rule kRule>
constexpr size_t shared_bytes(int n_rows) {
  using S = Sizes<kRows>;
  const int rows = S::kInRegisters ? 0 : S::kThreads * rows_of_part(n_rows, 0);
  return sizeof(float) * static_cast<size_t>(S::kBuffers * buffer_floats<kRows, kRule>(n_rows) + rows);
}
static_assert(shared_bytes<0, Rule::kRowDeltas>(kMaxDeltaHeadDim) <=
              48 << 10);  // more would have to be requested

struct DeltaArgs {
  RecurrentShape shape;
  const DeviceRun* runs;
  const float *q, *k, *v, *decay, *beta;
  RecurrentMemory memory;
  float* out;
  const float* skip;  // of a selective scan
  uint32_t* counters;
  DeviceCopies copies;
};

/// The rows of the state that a thread has.
template <int kRows>
struct OwnRows {
  float value[kRows];
  __device__ float& at(int j) { return value[j]; }
  /// Calls body(j, n) for rows [j, j + n), with n = 4 except at the end.
  template <class Body>
  __device__ __forceinline__ void for_fours(Body&& body) {
    GPU_UNROLL
    for (int j = 0; j < kRows; j += 4) body(j, 4);
  }
};
template <>
struct OwnRows<0> {
  float* cells;  // rows are Sizes<0>::kThreads floats apart
  int n;
  __device__ float& at(int j) { return cells[j * Sizes<0>::kThreads]; }
  template <class Body>
  __device__ __forceinline__ void for_fours(Body&& body) {
    for (int j = 0; j < n; j += 4) body(j, min(4, n - j));
  }
};

/// The part of the work that belongs to a thread block.
template <int kRows>
struct Place {
  using S = Sizes<kRows>;

  __device__ Place(const RecurrentShape& shape, const DeviceRun& its_run)
      : run(its_run), n_rows(S::kInRegisters ? kParts * kRows : shape.n_rows()), head_dim(shape.head_dim) {
    thread = static_cast<int>(threadIdx.x);
    part = thread % 32 / kWarpColumns;
    within = thread / 32 * kWarpColumns + thread % kWarpColumns;
    const int block = static_cast<int>(blockIdx.x);
    group = block / S::kBlocks;
    in_group = block % S::kBlocks * S::kColumns;
    head = group / shape.n_column_groups();
    key_head = shape.key_head(head);
    first_column = group % shape.n_column_groups() * RecurrentShape::kColumns + in_group;
  }
  __device__ int n_certain() const { return run.n_tokens - run.n_uncertain; }
  __device__ int column() const { return first_column + within; }
  /// Offset of the thread's first row in a state of the sequence. Its rows are kRowStride floats apart.
  __device__ int64_t first_row(const RecurrentShape& shape) const {
    return group * shape.group_floats() + part * RecurrentShape::kColumns + in_group + within;
  }
  static constexpr int kRowStride = kParts * RecurrentShape::kColumns;

  DeviceRun run;
  int n_rows;    // of the state
  int head_dim;  // of values
  int thread;
  int part;      // of the thread
  int within;    // the thread's column, counted from the block's first
  int group;     // of all heads
  int in_group;  // the block's first column within the group
  int head, key_head;
  int first_column;  // of the head
};

/// A buffer in shared memory for the inputs of kTokens positions. Positions count the replayed drafts and
/// then the tokens of the run.
template <int kRows, Rule kRule>
struct Staged {
  using S = Sizes<kRows>;

  __device__ Staged(float* memory, int n_rows) : stride(part_stride(n_rows)) {
    const int vector = S::kTokens * kParts * stride;
    k = memory;
    q = k + vector;
    decays = q + vector;
    v = kRule == Rule::kRowDeltas ? decays + vector : decays;
    gates = v + S::kTokens * S::kColumns;
  }
  /// Row i of position t of a key, query or row's decay.
  __device__ float& row(float* rows, int t, int i) const {
    return rows[(t * kParts + i % kParts) * stride + i / kParts];
  }
  /// The rows of a part.
  __device__ const float* part(const float* rows, int t, int part) const {
    return rows + (t * kParts + part) * stride;
  }

  int stride;
  float *k, *q;   // [kTokens][kParts][stride]
  float* decays;  // the same, of kRowDeltas
  float* v;       // [kTokens][kColumns] of replayed drafts: u
  float* gates;   // [kTokens][2] decay (not of kRowDeltas), beta
};

/// Reads the inputs of a thread block from global memory.
template <int kRows>
struct Source {
  using S = Sizes<kRows>;

  const DeltaArgs& args;
  const Place<kRows>& place;

  __device__ bool replays(int position) const { return position < place.run.n_replayed; }
  __device__ const float* logged(int position) const {
    return args.memory.logged(args.shape, place.run.slot, position);
  }
  __device__ int64_t token(int position) const {
    return int64_t{place.run.first_token} + position - place.run.n_replayed;
  }
  __device__ const float* key(int position) const {
    const int64_t head = int64_t{place.key_head} * place.n_rows;
    return replays(position) ? logged(position) + head
                             : args.k + token(position) * args.shape.key_dim() + head;
  }
  __device__ const float* query(int position) const {
    return args.q + token(position) * args.shape.key_dim() + int64_t{place.key_head} * place.n_rows;
  }
  /// v, or u of a replayed draft. Columns that pad the last group have 0.
  __device__ float value(int position, int within) const {
    const int column = place.first_column + within;
    if (column >= place.head_dim) return 0.0f;
    const int64_t at = int64_t{place.head} * place.head_dim + column;
    return replays(position) ? logged(position)[args.shape.key_dim() + at]
                             : args.v[token(position) * args.shape.value_dim() + at];
  }
  /// The decays of a state's rows.
  __device__ const float* decays(int position) const {
    const int64_t head = int64_t{place.head} * place.n_rows;
    return replays(position) ? logged(position) + args.shape.key_dim() + args.shape.value_dim() + head
                             : args.decay + token(position) * args.shape.decay_dim() + head;
  }
  /// which: 0 decay, if it is one for a head; 1 beta, which a replayed draft does not have.
  __device__ float gate(int position, int which) const {
    if (which == 0 && args.shape.row_decays) return 0.0f;
    if (replays(position)) {
      return which == 0 ? logged(position)[args.shape.key_dim() + args.shape.value_dim() + place.head] : 0.0f;
    }
    return (which == 0 ? args.decay : args.beta)[token(position) * args.shape.n_v_heads + place.head];
  }
};

/// The part of kTokens positions that a thread loads for its thread block while the thread block computes.
template <int kRows, Rule kRule>
struct Fetched {
  using S = Sizes<kRows>;
  static constexpr bool kRowDecays = kRule == Rule::kRowDeltas;
  static constexpr int kFloats = kParts * kRows / S::kThreads;  // of a key or query
  static constexpr int kDecays = kRowDecays ? kFloats : 1;

  float k[S::kTokens][kFloats] = {}, q[S::kTokens][kFloats] = {}, decays[S::kTokens][kDecays] = {};
  float value = 0.0f, gate = 0.0f;

  /// Loads n positions.
  __device__ __forceinline__ void load(const Source<kRows>& from, int first, int n) {
    const int thread = from.place.thread;
    GPU_UNROLL
    for (int t = 0; t < S::kTokens; ++t) {
      if (t >= n) break;
      const float* const key = from.key(first + t);
      GPU_UNROLL
      for (int i = 0; i < kFloats; ++i) k[t][i] = key[thread + i * S::kThreads];
      if constexpr (kRowDecays) {
        const float* const of_rows = from.decays(first + t);
        GPU_UNROLL
        for (int i = 0; i < kFloats; ++i) decays[t][i] = of_rows[thread + i * S::kThreads];
      }
      if (from.replays(first + t)) continue;
      const float* const query = from.query(first + t);
      GPU_UNROLL
      for (int i = 0; i < kFloats; ++i) q[t][i] = query[thread + i * S::kThreads];
    }
    if (thread / S::kColumns < n) value = from.value(first + thread / S::kColumns, thread % S::kColumns);
    if (thread / 2 < n) gate = from.gate(first + thread / 2, thread % 2);
  }
  __device__ __forceinline__ void store(const Source<kRows>& from, const Staged<kRows, kRule>& to) const {
    const int thread = from.place.thread;
    GPU_UNROLL
    for (int t = 0; t < S::kTokens; ++t) {
      GPU_UNROLL
      for (int i = 0; i < kFloats; ++i) {
        to.row(to.k, t, thread + i * S::kThreads) = k[t][i];
        to.row(to.q, t, thread + i * S::kThreads) = q[t][i];
        if constexpr (kRowDecays) to.row(to.decays, t, thread + i * S::kThreads) = decays[t][i];
      }
    }
    if (thread < S::kTokens * S::kColumns) to.v[thread] = value;
    if (thread < S::kTokens * 2) to.gates[thread] = gate;
  }
};

/// Copies one position of a head with any number of dimensions, without registers in between.
template <Rule kRule>
struct Fetched<0, kRule> {
  using S = Sizes<0>;

  int position = 0, n = 0;  // n: 0 or 1

  __device__ void load(const Source<0>& /*from*/, int first, int n_positions) {
    position = first;
    n = n_positions;
  }
  __device__ void store(const Source<0>& from, const Staged<0, kRule>& to) const {
    if (n == 0) return;
    const int thread = from.place.thread, n_rows = from.place.n_rows;
    const float* const key = from.key(position);
    for (int i = thread; i < n_rows; i += S::kThreads) to.row(to.k, 0, i) = key[i];
    if constexpr (kRule == Rule::kRowDeltas) {
      const float* const of_rows = from.decays(position);
      for (int i = thread; i < n_rows; i += S::kThreads) to.row(to.decays, 0, i) = of_rows[i];
    }
    if (!from.replays(position)) {
      const float* const query = from.query(position);
      for (int i = thread; i < n_rows; i += S::kThreads) to.row(to.q, 0, i) = query[i];
    }
    if (thread < S::kColumns) to.v[thread] = from.value(position, thread);
    if (thread < 2) to.gates[thread] = from.gate(position, thread);
  }
};

/// (p0 + p1) + (p2 + p3), from the partial sums of a column's four threads.
__device__ __forceinline__ float total(float part) {
  part = __fadd_rn(part, __shfl_xor_sync(~0u, part, kWarpColumns));
  return __fadd_rn(part, __shfl_xor_sync(~0u, part, 2 * kWarpColumns));
}

struct FourRows {
  float at[4];
  __device__ explicit FourRows(const float* from) {
    const float4 four = *gpu_aligned<float4>(from);
    at[0] = four.x, at[1] = four.y, at[2] = four.z, at[3] = four.w;
  }
};

/// The decays of a thread's rows: one for all, or one for each.
template <Rule kRule>
struct Decays {
  float of_all;
  const float* of_rows;
  /// Four rows from row j on.
  struct Four {
    float of_all;
    __device__ float at(int /*e*/) const { return of_all; }
  };
  __device__ Four from(int /*j*/) const { return {of_all}; }
};
template <>
struct Decays<Rule::kRowDeltas> {
  float of_all;  // not used
  const float* of_rows;
  struct Four {
    FourRows rows;
    __device__ float at(int e) const { return rows.at[e]; }
  };
  __device__ Four from(int j) const { return {FourRows(of_rows + j)}; }
};

/// S[i] = k[i] * u + decay * S[i].
template <int kRows, Rule kRule>
__device__ __forceinline__ void replay(OwnRows<kRows>& rows, const float* k, float u,
                                       const Decays<kRule>& decays) {
  rows.for_fours([&](int j, int n) {
    const FourRows keys(k + j);
    const auto decay = decays.from(j);
    GPU_UNROLL
    for (int e = 0; e < 4; ++e) {
      if (e < n) rows.at(j + e) = __fmaf_rn(keys.at[e], u, __fmul_rn(decay.at(e), rows.at(j + e)));
    }
  });
}

/// What a token gives in a column.
struct Column {
  float u, out;
};
/// A token of the gated delta rule.
template <int kRows, Rule kRule>
__device__ __forceinline__ Column advance(OwnRows<kRows>& rows, const float* k, const float* q, float v,
                                          const Decays<kRule>& decays, float beta) {
  constexpr bool kOfRows = kRule == Rule::kRowDeltas;
  float sum = 0.0f;
  rows.for_fours([&](int j, int n) {
    const FourRows keys(k + j);
    const auto decay = decays.from(j);
    GPU_UNROLL
    for (int e = 0; e < 4; ++e) {
      if (e >= n) continue;
      sum = __fmaf_rn(rows.at(j + e), kOfRows ? __fmul_rn(decay.at(e), keys.at[e]) : keys.at[e], sum);
      rows.at(j + e) = __fmul_rn(decay.at(e), rows.at(j + e));  // here, because it does not wait for u
    }
  });
  const float u = __fmul_rn(beta, __fmaf_rn(kOfRows ? -1.0f : -decays.of_all, total(sum), v));
  float out = 0.0f;
  rows.for_fours([&](int j, int n) {
    const FourRows keys(k + j), queries(q + j);
    GPU_UNROLL
    for (int e = 0; e < 4; ++e) {
      if (e >= n) continue;
      rows.at(j + e) = __fmaf_rn(keys.at[e], u, rows.at(j + e));
      out = __fmaf_rn(rows.at(j + e), queries.at[e], out);
    }
  });
  return {u, total(out)};
}

/// A token of a selective scan.
template <int kRows>
__device__ __forceinline__ Column scan(OwnRows<kRows>& rows, const float* k, const float* q, float v,
                                       float decay, float step, float skip) {
  const float u = __fmul_rn(step, v);
  float out = 0.0f;
  rows.for_fours([&](int j, int n) {
    const FourRows keys(k + j), queries(q + j);
    GPU_UNROLL
    for (int e = 0; e < 4; ++e) {
      if (e >= n) continue;
      rows.at(j + e) = __fmaf_rn(keys.at[e], u, __fmul_rn(decay, rows.at(j + e)));
      out = __fmaf_rn(rows.at(j + e), queries.at[e], out);
    }
  });
  return {u, __fmaf_rn(skip, v, total(out))};
}

/// Writes the keys and decays of a run's drafts to the log. Other thread blocks of the run replay the
/// previous drafts from there, so only the last thread block that reads a key head writes.
template <int kRows>
__device__ void log_drafts(const DeltaArgs& args, const Place<kRows>& place) {
  using S = Sizes<kRows>;
  __shared__ bool is_last;
  const RecurrentShape& shape = args.shape;
  const int counter = place.key_head % kDeltaCounters;
  if (place.thread == 0) {
    const int n_key_heads = (shape.n_k_heads - counter + kDeltaCounters - 1) / kDeltaCounters;
    const int n_blocks =
        n_key_heads * (shape.n_v_heads / shape.n_k_heads) * shape.n_column_groups() * S::kBlocks;
    uint32_t* const done = args.counters + int64_t{place.run.first_token} * kDeltaCounters + counter;
    is_last = gpu_arrive(done) + 1 == static_cast<unsigned>(n_blocks);
    if (is_last) *done = 0;
  }
  __syncthreads();
  if (!is_last) return;
  for (int i = 0; i < place.run.n_uncertain; ++i) {
    float* const logged = args.memory.logged(shape, place.run.slot, i);
    const int64_t token = int64_t{place.run.first_token} + place.n_certain() + i;
    for (int j = counter; j < shape.n_k_heads; j += kDeltaCounters) {
      const int64_t first = int64_t{j} * place.n_rows;
      for (int row = place.thread; row < place.n_rows; row += S::kThreads)
        logged[first + row] = args.k[token * shape.key_dim() + first + row];
    }
    const int64_t n_decays = shape.row_decays ? place.n_rows : 1;  // of a head
    for (int h = place.thread; h < shape.n_v_heads; h += S::kThreads) {
      if (shape.key_head(h) % kDeltaCounters == counter) {
        for (int64_t j = h * n_decays; j < (h + 1) * n_decays; ++j)
          logged[shape.key_dim() + shape.value_dim() + j] = args.decay[token * shape.decay_dim() + j];
      }
    }
  }
}

/// blockIdx: group of columns of a head, run.
template <int kRows, Rule kRule>
__global__ void __launch_bounds__(Sizes<kRows>::kThreads, 1) delta_kernel(const DeltaArgs args) {
  using S = Sizes<kRows>;
  GPU_DYN_SHARED(float, memory);
  const RecurrentShape& shape = args.shape;
  const DeviceRun run = args.runs[blockIdx.y];
  if (run.slot < 0) return;
  const Place<kRows> place(shape, run);
  const Source<kRows> source{args, place};
  // Positions [0, n_kept) are in the state that the sequence keeps.
  const int n_positions = run.n_replayed + run.n_tokens, n_kept = n_positions - run.n_uncertain;
  const int64_t first_row = place.first_row(shape);
  float* const state = args.memory.state(shape, run.slot) + first_row;
  const int n_rows = rows_of_part(place.n_rows, place.part);
  Staged<kRows, kRule> staged(memory, place.n_rows);
  Fetched<kRows, kRule> fetched;
  fetched.load(source, 0, min(S::kTokens, n_positions));
  OwnRows<kRows> rows;
  if constexpr (!S::kInRegisters) {
    rows.cells = memory + S::kBuffers * buffer_floats<kRows, kRule>(place.n_rows) + place.thread;
    rows.n = n_rows;
  }
  const auto write = [&](float* to) {
    rows.for_fours([&](int j, int n) {
      GPU_UNROLL
      for (int e = 0; e < 4; ++e) {
        if (e < n) to[(j + e) * Place<kRows>::kRowStride] = rows.at(j + e);
      }
    });
  };
  rows.for_fours([&](int j, int n) {
    GPU_UNROLL
    for (int e = 0; e < 4; ++e) {
      if (e < n) rows.at(j + e) = run.fresh != 0 ? 0.0f : state[(j + e) * Place<kRows>::kRowStride];
    }
  });
  if (run.fresh != 0 && n_kept == 0) write(state);
  fetched.store(source, staged);  // all loads are under way
  __syncthreads();

  const bool writes_out = place.part == 0 && place.column() < place.head_dim;
  const int64_t value_at = int64_t{place.head} * place.head_dim + place.column();
  const float skip = kRule == Rule::kScan ? args.skip[place.head] : 0.0f;
  int next_copy = 0;
  while (next_copy < args.copies.n && args.copies.after_token[next_copy] < run.first_token) ++next_copy;
  for (int begin = 0; begin < n_positions; begin += S::kTokens) {
    const int next = begin + S::kTokens;
    if (next < n_positions) fetched.load(source, next, min(S::kTokens, n_positions - next));
    for (int t = 0; t < S::kTokens && begin + t < n_positions; ++t) {
      const int position = begin + t;
      const float* const k = staged.part(staged.k, t, place.part);
      const float v = staged.v[t * S::kColumns + place.within];
      const Decays<kRule> decays{staged.gates[2 * t], staged.part(staged.decays, t, place.part)};
      if (source.replays(position)) {
        replay(rows, k, v, decays);
      } else {
        const float* const q = staged.part(staged.q, t, place.part);
        const float beta = staged.gates[2 * t + 1];
        Column column;
        if constexpr (kRule == Rule::kScan) {
          column = scan(rows, k, q, v, decays.of_all, beta, skip);
        } else {
          column = advance(rows, k, q, v, decays, beta);
        }
        const int64_t token = source.token(position);
        if (writes_out) {
          args.out[token * shape.value_dim() + value_at] = column.out;
          if (position >= n_kept) {
            args.memory.logged(shape, run.slot, position - n_kept)[shape.key_dim() + value_at] = column.u;
          }
        }
        for (; next_copy < args.copies.n && args.copies.after_token[next_copy] == token; ++next_copy)
          write(args.copies.out[next_copy] + first_row);
      }
      if (position + 1 == n_kept) write(state);
    }
    if constexpr (S::kBuffers > 1) {
      const int other = next / S::kTokens % S::kBuffers;
      staged = Staged<kRows, kRule>(memory + other * buffer_floats<kRows, kRule>(place.n_rows), place.n_rows);
    } else {
      __syncthreads();
    }
    if (next < n_positions) fetched.store(source, staged);
    __syncthreads();
  }
  // The thread block has staged the previous drafts before its last barrier.
  if (run.n_uncertain > 0) log_drafts(args, place);
}

/// The products with the state, and per element of the state and token four operations and two loads.
KernelWork delta_work(const RecurrentShape& shape, const DeviceRuns& runs, int n_copies, bool scans) {
  const int64_t state = shape.state_floats(),
                logged = shape.key_dim() + shape.value_dim() + shape.decay_dim();
  int64_t n_floats = n_copies * state, n_positions = 0;
  for (int i = 0; i < runs.n; ++i) {
    const DeviceRun& run = runs.runs[i];
    if (run.slot < 0) continue;
    const bool writes = run.n_replayed + run.n_tokens - run.n_uncertain > 0 || run.fresh != 0;
    n_floats += ((run.fresh != 0 ? 0 : 1) + (writes ? 1 : 0)) * state;
    n_floats += run.n_tokens * (shape.key_dim() + shape.value_dim() + shape.n_v_heads + logged);
    n_floats += (run.n_replayed + run.n_uncertain) * logged;
    n_positions += run.n_replayed + run.n_tokens;
  }
  if (scans) n_floats += shape.n_v_heads;
  return {.kind = KernelClass::kProduct,
          .bytes = floats(n_floats),
          .instructions = 6.0 * static_cast<double>(n_positions * state)};
}

template <int kRows, Rule kRule>
void launch_delta(const DeltaArgs& args, const DeviceRuns& runs, cudaStream_t stream) {
  using S = Sizes<kRows>;
  const RecurrentShape& shape = args.shape;
  const dim3 grid(static_cast<unsigned>(shape.n_v_heads * shape.n_column_groups() * S::kBlocks),
                  static_cast<unsigned>(runs.n));
  check(gpu_launch([=, n = args.copies.n] { return delta_work(shape, runs, n, kRule == Rule::kScan); },
                   gpu_kernel<delta_kernel<kRows, kRule>>, grid, S::kThreads,
                   shared_bytes<kRows, kRule>(shape.n_rows()), stream, args),
        "computing a recurrent layer");
}

/// skip: only of a selective scan.
template <Rule kRule>
void compute(const GatedDelta& call, const float* skip, const DeviceRuns& runs, uint32_t* counters,
             cudaStream_t stream) {
  if (runs.n == 0) return;
  if (call.shape.n_rows() > kMaxDeltaHeadDim) {
    throw std::invalid_argument("A recurrent layer on a CUDA device: a head has " +
                                std::to_string(call.shape.n_rows()) + " dimensions, the kernels take up to " +
                                std::to_string(kMaxDeltaHeadDim) + ". Keep this model's layers on the CPU.");
  }
  const DeltaArgs args{call.shape, runs.runs,   call.q,   call.k, call.v,   call.decay,
                       call.beta,  call.memory, call.out, skip,   counters, device_copies(call.copies)};
  switch (call.shape.n_rows()) {
    case 64:
      return launch_delta<16, kRule>(args, runs, stream);
    case 128:
      return launch_delta<32, kRule>(args, runs, stream);
    default:
      return launch_delta<0, kRule>(args, runs, stream);
  }
}

}  // namespace

void gated_delta(const GatedDelta& call, const DeviceRuns& runs, uint32_t* counters, cudaStream_t stream) {
  if (call.shape.row_decays) return compute<Rule::kRowDeltas>(call, nullptr, runs, counters, stream);
  compute<Rule::kDelta>(call, nullptr, runs, counters, stream);
}

void selective_scan(const SelectiveScan& call, const DeviceRuns& runs, uint32_t* counters,
                    cudaStream_t stream) {
  compute<Rule::kScan>(call.state, call.skip, runs, counters, stream);
}

}  // namespace hearth::cuda
