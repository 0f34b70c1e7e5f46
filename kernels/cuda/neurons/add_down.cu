// Multiplies the down rows of neurons by the neurons' values, and adds the products to integer sums.
//
// For quantized rows, the kernel rounds the product of value and scale to an integer (a term), and splits the
// term into its high and its low bits. It multiplies both parts by the codes and adds them up, which takes
// two integer multiply-adds per weight (kernels/quant/neuron_terms.h). For other rows, each contribution is
// summed in two parts of 32 bits (SumParts in kernels/neuron_sums.h), because consumer GPUs convert only two
// numbers per clock to 64-bit integers and have few units for doubles. A model's outliers cause products that
// are too large for these parts. Such products are converted one by one, and added directly to the sums in
// memory.
//
// A thread block computes 256 columns, eight per lane, for a chunk of the listed neurons. Its warps divide
// the chunk's neurons among themselves and add their sums up in shared memory. So each column takes only one
// 64-bit atomic addition per chunk. Decoding the bytes of a row once serves kDownPassTokens tokens. The order
// of the additions and of the neurons does not matter.
//
// With few tokens, latency takes most of the time: first the list is loaded, then the rows, and then the sums
// are added. So the grid has as many thread blocks as the GPU holds at a time, and each takes an equal part
// of the list, whose length only the device knows. On an H200, 1,321 rows of 4,096 Q4_0 weights take 7.5 us,
// which is 10 % of the memory-bound speed (tests/data/measured/h200).
#include <algorithm>
#include <type_traits>

#include "kernels/cuda/neurons/add_down_sources.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/ops/kernel_class.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_attribute.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kColumns = 32 * kLaneColumns;
/// The number of thread blocks that a multiprocessor holds at a time. A larger number leaves fewer registers
/// for each thread.
template <class Source, int kTokens>
constexpr int kBlocksPerSm = kTokens == 1 ? Source::kBlocksPerSm : 2;
constexpr int kLeastChunk = 4 * kWarps, kMaxChunk = SumParts::kMost;
constexpr int kFewTokens = 8;
/// The number of thread blocks that keeps the largest GPUs busy with many tokens. More thread blocks would
/// only cause more atomic additions.
constexpr int64_t kEnoughBlocks = 2048;

__device__ __forceinline__ void add_to(int64_t* sum, int64_t units) {
  atomicAdd(gpu_aligned<unsigned long long>(sum), static_cast<unsigned long long>(units));
}

/// Computes contribution() of kernels/neuron_sums.h.
__device__ __forceinline__ int64_t units_of(float value, float weight) {
  double product = __dmul_rn(value, weight);
  product = product < 0x1p20 ? product : 0x1p20;
  product = product > -0x1p20 ? product : -0x1p20;
  return static_cast<int64_t>(rint(__dmul_rn(product, 0x1p36)));
}

/// A lane's sums for one token.
struct LaneSums {
  unsigned high[kLaneColumns], low[kLaneColumns];

  __device__ __forceinline__ void clear() {
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) high[k] = low[k] = 0;
  }
  /// Adds value * weights. to: the global sums of the lane's n columns.
  __device__ __forceinline__ void add(float value, const float (&weights)[kLaneColumns], int64_t* to, int n) {
    float above[kLaneColumns];
    unsigned differing = 0;
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      above[k] = __fmaf_rn(value, weights[k], SumParts::kHighShift);
      differing |= __float_as_uint(above[k]) ^ SumParts::kHighBits;
    }
    if ((differing & SumParts::kExponent) != 0) {
      add_exactly(value, weights, to, n);
      return;
    }
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      const float rest = __fsub_rn(SumParts::kBothShifts, above[k]);
      high[k] += __float_as_uint(above[k]);
      low[k] += __float_as_uint(__fmaf_rn(value, weights[k], rest));
    }
  }
  /// Adds the contributions of all eight weights to `to` one by one, and zeros to the two-part sums.
  __device__ __forceinline__ void add_exactly(float value, const float (&weights)[kLaneColumns], int64_t* to,
                                              int n) {
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      if (value != 0.0f && k < n) add_to(to + k, units_of(value, weights[k]));
      high[k] += SumParts::kHighBits;
      low[k] += SumParts::kLowBits;
    }
  }
};

/// A lane's sums for one token, for rows with terms.
struct LaneTerms {
  // Codes are stored with an offset that makes them nonnegative, so the sums of high parts may exceed the
  // range of int32_t. join() subtracts the offset by adding `extra`, after which the sums are in range.
  unsigned high[kLaneColumns], low[kLaneColumns];
  int64_t extra;  // added to all columns: -(offset * term) and the terms of mins

  __device__ __forceinline__ void clear() {
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) high[k] = low[k] = 0;
    extra = 0;
  }
  template <class Source>
  __device__ __forceinline__ void add(const Source& source, const typename Source::Raw& raw, int64_t lane,
                                      float value, const Eight& q, float scale, float min, int64_t* to,
                                      int n) {
    const float scaled = __fmul_rn(value, Source::kPower);
    const float term = __fmul_rn(scaled, scale), of_min = Source::kMins ? __fmul_rn(scaled, min) : 0.0f;
    if (!(fabsf(term) < Terms::kLimit && fabsf(of_min) < Terms::kLimit)) {
      if (value == 0.0f) return;
      float weights[kLaneColumns];
      source.decode(raw, lane, weights);
      GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
        if (k < n) add_to(to + k, units_of(value, weights[k]));
      }
      return;
    }
    const int t = __float2int_rn(term);
    const int above = t >> Terms::kLowBits, below = t & Terms::kLowMask;
    extra -= int64_t{Source::kOffset} * t;
    if (Source::kMins) extra += __float2int_rn(of_min);
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      const int code = static_cast<int>(q.word[k / 4] >> (k % 4 * 8) & 255);
      high[k] += static_cast<unsigned>(above * code);
      low[k] += static_cast<unsigned>(below * code);
    }
  }
  /// Adds the high part and the low part of `extra` to the sums of all columns. Both parts fit 32 bits,
  /// because |extra| is below 2^46 for up to kMost neurons.
  __device__ __forceinline__ void join() {
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      high[k] += static_cast<unsigned>(extra >> Terms::kLowBits);
      low[k] += static_cast<unsigned>(extra & Terms::kLowMask);
    }
  }
};

template <int kTokens>
struct Shared {
  int n_active;
  int32_t ids[kMaxChunk], rows[kMaxChunk];
  float values[kTokens][kMaxChunk];
  unsigned high[kTokens][kColumns], low[kTokens][kColumns];
};

/// The arguments of one call.
struct Call {
  const int32_t* ids;
  const int32_t* n;
  const int32_t* device_rows;  // by neuron: its device row; null: the row is the neuron's number
  int64_t max;
  int least_chunk;  // thread blocks take equal parts of the list, but at least this many neurons
  const float* values;
  int n_tokens;
  int64_t n_cols;
  int64_t* sums;
  int32_t* poison;
};

/// Gathers into shared memory, in any order, the neurons of the chunk whose value is not 0 for at least one
/// of the tokens.
template <int kTokens>
__device__ __forceinline__ void gather_active(const Call& call, int64_t begin, int64_t end, int first_token,
                                              Shared<kTokens>& shared) {
  const int64_t place = begin + threadIdx.x;
  float values[kTokens];
  bool any = false;
  GPU_UNROLL for (int t = 0; t < kTokens; ++t) {
    const bool listed = place < end && first_token + t < call.n_tokens;
    values[t] = listed ? call.values[(first_token + t) * call.max + place] : 0.0f;
    if (!(fabsf(values[t]) <= 3.402823466e38f)) {  // infinite or NaN
      values[t] = 0.0f;
      if (blockIdx.z == 0) atomicOr(call.poison + first_token + t, 1);
    }
    any |= values[t] != 0.0f;
  }
  // Each warp makes one addition, because additions to the same word wait for each other.
  const unsigned active = __ballot_sync(0xffffffffu, any);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int first = 0;
  if (lane == 0 && active != 0) first = atomicAdd(&shared.n_active, __popc(active));
  first = __shfl_sync(0xffffffffu, first, 0);
  if (!any) return;
  const int index = first + __popc(active & ((1u << lane) - 1));
  shared.ids[index] = call.ids[place];
  shared.rows[index] = call.device_rows == nullptr ? call.ids[place] : call.device_rows[call.ids[place]];
  GPU_UNROLL for (int t = 0; t < kTokens; ++t) shared.values[t][index] = values[t];
}

/// Multiplies a warp's rows of the chunk by their values, and adds them to the thread block's sums.
template <class Source, int kTokens>
__device__ __forceinline__ void sum_rows(const Source& source, const Call& call, int first_token,
                                         Shared<kTokens>& shared) {
  constexpr int kRows = kTokens == 1 ? Source::kRowsInFlight : 2;
  const int warp = static_cast<int>(threadIdx.x) / 32, own = static_cast<int>(threadIdx.x) % 32;
  const int64_t lane = int64_t{blockIdx.z} * 32 + own, column = lane * kLaneColumns;
  const int n_active = shared.n_active;
  if (warp * kRows >= n_active || column >= call.n_cols) return;
  const int n_columns =
      static_cast<int>(call.n_cols - column < kLaneColumns ? call.n_cols - column : kLaneColumns);
  std::conditional_t<Source::kTerms, LaneTerms, LaneSums> sums[kTokens];
  GPU_UNROLL for (int t = 0; t < kTokens; ++t) sums[t].clear();
  unsigned n_rows = 0;
  for (int first = warp * kRows; first < n_active; first += kWarps * kRows) {
    typename Source::Raw raw[kRows];
    GPU_UNROLL for (int r = 0; r < kRows; ++r) {
      if (first + r < n_active) source.load(shared.rows[first + r], shared.ids[first + r], lane, raw[r]);
    }
    GPU_UNROLL for (int r = 0; r < kRows; ++r) {
      if (first + r >= n_active) break;
      const auto to = [&](int t) { return call.sums + (first_token + t) * call.n_cols + column; };
      if constexpr (Source::kTerms) {
        float scale, min = 0.0f;
        const Eight q = source.codes(raw[r], lane, scale, min);
        GPU_UNROLL for (int t = 0; t < kTokens; ++t) {
          sums[t].add(source, raw[r], lane, shared.values[t][first + r], q, scale, min, to(t), n_columns);
        }
      } else {
        float weights[kLaneColumns];
        source.decode(raw[r], lane, weights);
        GPU_UNROLL for (int t = 0; t < kTokens; ++t) {
          sums[t].add(shared.values[t][first + r], weights, to(t), n_columns);
        }
      }
      ++n_rows;
    }
  }
  GPU_UNROLL for (int t = 0; t < kTokens; ++t) {
    unsigned none_high = n_rows * SumParts::kHighBits, none_low = n_rows * SumParts::kLowBits;
    if constexpr (Source::kTerms) {
      none_high = none_low = 0;
      sums[t].join();
    }
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      atomicAdd(&shared.high[t][k * 32 + own], static_cast<unsigned>(sums[t].high[k]) - none_high);
      atomicAdd(&shared.low[t][k * 32 + own], static_cast<unsigned>(sums[t].low[k]) - none_low);
    }
  }
}

/// Thread block (x, y, z) computes kTokens tokens, beginning with token kTokens * x, and 256 columns,
/// beginning with column 256 * z. Its chunks are y, y + gridDim.y, y + 2 * gridDim.y and so on. Thread blocks
/// that run at the same time differ mainly in x, so they read the same columns of the same rows, and most
/// reads hit a cache.
template <class Source, int kTokens>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm<Source, kTokens>)
    add_down_kernel(Source source, Call call) {
  __shared__ Shared<kTokens> shared;
  const int first_token = static_cast<int>(blockIdx.x) * kTokens;
  const int64_t n = *call.n;
  const int64_t part = (n + gridDim.y - 1) / gridDim.y;
  const int64_t chunk = part < call.least_chunk ? call.least_chunk : part < kMaxChunk ? part : kMaxChunk;
  for (int64_t begin = int64_t{blockIdx.y} * chunk; begin < n; begin += int64_t{gridDim.y} * chunk) {
    if (threadIdx.x == 0) shared.n_active = 0;
    GPU_UNROLL for (int t = 0; t < kTokens; ++t) shared.high[t][threadIdx.x] = shared.low[t][threadIdx.x] = 0;
    __syncthreads();
    gather_active(call, begin, begin + chunk < n ? begin + chunk : n, first_token, shared);
    __syncthreads();
    sum_rows(source, call, first_token, shared);
    __syncthreads();
    const int own = static_cast<int>(threadIdx.x);
    const int64_t column = int64_t{blockIdx.z} * kColumns + own;
    GPU_UNROLL for (int t = 0; t < kTokens; ++t) {
      if (first_token + t >= call.n_tokens || column >= call.n_cols) continue;
      const int at = own % kLaneColumns * 32 + own / kLaneColumns;
      const auto high = static_cast<int>(shared.high[t][at]), low = static_cast<int>(shared.low[t][at]);
      constexpr int kBits = Source::kTerms ? Terms::kLowBits : 22;
      const int64_t units = (int64_t{high} * (int64_t{1} << kBits) + low) * (int64_t{1} << Source::kShift);
      if (units != 0) add_to(call.sums + (first_token + t) * call.n_cols + column, units);
    }
    __syncthreads();
  }
}

/// The declared work: rows are read once, and decoded once per kTokens tokens. down_instructions() counts the
/// instructions to decode a weight, and to multiply and add it for each token.
template <int kTokens, class Source>
KernelWork work_of(const Source& source, const Call& call) {
  const auto n = static_cast<double>(*call.n), cols = static_cast<double>(call.n_cols);
  const double passes = (call.n_tokens + kTokens - 1) / kTokens;
  return {.kind = KernelClass::kDownRows,
          .bytes = n * source.row_bytes(call.n_cols) + floats((1 + call.n_tokens) * int64_t{*call.n}) +
                   16.0 * call.n_tokens * cols,
          .instructions = n * cols * down_instructions(Source::kTerms, call.n_tokens, passes)};
}

int multiprocessors() {
  static const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  return multiprocessors;
}

template <int kTokens, class Source>
void launch(const Source& source, const Call& call, cudaStream_t stream) {
  const int64_t tiles = (call.n_cols + kColumns - 1) / kColumns,
                parts = (call.n_tokens + kTokens - 1) / kTokens;
  const int64_t chunks = (call.max + call.least_chunk - 1) / call.least_chunk;
  const int64_t wanted =
      call.n_tokens <= kFewTokens
          ? std::max<int64_t>(kBlocksPerSm<Source, kTokens> * multiprocessors() / (tiles * parts), 1)
          : (kEnoughBlocks + tiles * parts - 1) / (tiles * parts);
  const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(std::min(chunks, wanted)),
                  static_cast<unsigned>(tiles));
  check(gpu_launch([=] { return work_of<kTokens>(source, call); },
                   gpu_kernel<add_down_kernel<Source, kTokens>>, grid, kThreads, 0, stream, source, call),
        "adding up the down projection of neurons");
}

template <class Source>
void launch_for(const Source& source, Call call, cudaStream_t stream) {
  call.least_chunk = call.n_tokens <= kFewTokens ? kLeastChunk : kMaxChunk;
  if (call.n_tokens == 1) return launch<1>(source, call, stream);
  launch<kDownPassTokens>(source, call, stream);
}

const uint8_t* bytes_of(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }

void add_rows(const Matrix& rows, const Call& call, cudaStream_t stream) {
  const uint8_t* data = bytes_of(rows.data);
  const size_t stride = rows.stride_bytes();
  switch (rows.dtype) {
    case DType::kF32:
      return launch_for(FloatRows<FloatKind::kF32>{data, stride, rows.n_cols}, call, stream);
    case DType::kF16:
      return launch_for(FloatRows<FloatKind::kF16>{data, stride, rows.n_cols}, call, stream);
    case DType::kBF16:
      return launch_for(FloatRows<FloatKind::kBF16>{data, stride, rows.n_cols}, call, stream);
    default:
      break;
  }
  visit_device_block_type(rows.dtype, [&]<class Block>() {
    launch_for(QuantRows<Block>{data, stride}, call, stream);
  });
}

template <int kBits, bool kHalves, bool kMins>
void add_codes(const CodedColumns& coded, const Call& call, cudaStream_t stream) {
  const float offset = kBits == 4 ? static_cast<float>(coded.offset) : 128.0f;
  launch_for(CodedRows<kBits, kHalves, kMins>{bytes_of(coded.codes), coded.stride, bytes_of(coded.scales),
                                              bytes_of(coded.mins), coded.n_cols_padded, coded.group, offset},
             call, stream);
}

template <int kBits>
void add_coded(const CodedColumns& coded, const Call& call, cudaStream_t stream) {
  const bool mins = coded.mins != nullptr;
  if (coded.half_scales) {
    mins ? add_codes<kBits, true, true>(coded, call, stream)
         : add_codes<kBits, true, false>(coded, call, stream);
  } else {
    mins ? add_codes<kBits, false, true>(coded, call, stream)
         : add_codes<kBits, false, false>(coded, call, stream);
  }
}

}  // namespace

void add_down(const DownColumns& down, const DeviceList& list, const float* values, int n_tokens,
              const NeuronSums& sums, cudaStream_t stream, const int32_t* device_rows) {
  if (n_tokens == 0 || list.max == 0 || down.n_cols == 0) return;
  const Call call{list.ids, list.n,   device_rows, list.max,  0,
                  values,   n_tokens, down.n_cols, sums.sums, sums.poison};
  if (down.rows) return add_rows(down.rows, call, stream);
  down.coded.bits == 4 ? add_coded<4>(down.coded, call, stream) : add_coded<8>(down.coded, call, stream);
}

}  // namespace hearth::cuda
