// Skips zeros inside experts: lists each row's active neurons, and adds up the down rows of these neurons.
//
// The sums have the bits of ExpertNeurons on the CPU. For column c of a row:
//   sum = 0; for each active neuron j, ascending: sum = fma(value_j, w_jc, sum); out_c = sum + bias_c
// kernels/neurons.h defines the sum for CodedColumns, whose groups of neurons share scales.
//
// The up rows of neurons that do not pass are multiplied too, in the launch of the gate rows. Leaving them
// out would take a further launch.
//
// Bound of add_active_rows(): reading the codes of the active neurons, n_active * d_model * bits / 8 bytes,
// and a row of scales (and of mins) for each group that has an active neuron. With several tokens in a tile,
// a row that several of them want comes from memory once and then from a cache. A column's sum is a chain of
// additions, so a thread loads the codes of kInFlight neurons before it adds them. It owns the columns of one
// byte of codes, or one column of floats.
#include <bit>
#include <cassert>
#include <vector>

#include "kernels/cuda/neurons/add_down_sources.cuh"
#include "kernels/cuda/neurons/count_warps.cuh"
#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/rows/activation.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

// ---- the list of active neurons ----

constexpr int kListThreads = 256, kListWarps = kListThreads / 32;

/// Thread block b lists the active neurons of row b, 256 neurons at a time. Neurons never move to a higher
/// place, and all threads read their neuron before any thread writes, so the lists may replace the inputs.
template <Activation kKind>
__global__ void __launch_bounds__(kListThreads)
    list_active_kernel(const float* gate, const float* up, const int32_t* n_rows, int64_t d_expert,
                       ActivationNumbers numbers, ActiveOfRows to, DeviceCounts* counts) {
  __shared__ int of_warp[kListWarps];
  const int64_t row = blockIdx.x;
  if (row >= *n_rows) return;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  int n = 0, n_passed = 0, n_active = 0;  // n: all active neurons so far; the others: of this thread
  for (int64_t begin = 0; begin < d_expert; begin += kListThreads) {
    const int64_t neuron = begin + thread, i = row * d_expert + neuron;
    float value = 0.0f;
    if (neuron < d_expert) {
      const float act = activated<kKind>(gate[i], numbers);
      const bool passes = act != 0.0f;
      n_passed += passes ? 1 : 0;
      if (passes) value = gated<kKind>(gate[i], up == nullptr ? nullptr : up + i, numbers);
    }
    const bool is_active = value != 0.0f;
    const unsigned of_lanes = __ballot_sync(0xffffffffu, is_active ? 1 : 0);
    if (lane == 0) of_warp[warp] = __popc(of_lanes);
    __syncthreads();
    int before = n;
    for (int w = 0; w < kListWarps; ++w) {
      if (w < warp) before += of_warp[w];
      n += of_warp[w];
    }
    if (is_active) {
      const int64_t place = row * d_expert + before + __popc(of_lanes & ((1u << lane) - 1));
      to.ids[place] = static_cast<int32_t>(neuron);
      to.values[place] = value;
      ++n_active;
    }
    __syncthreads();
  }
  if (thread == 0) to.n[row] = n;
  add_of_warp(n_passed, &counts->of_experts_passed);
  add_of_warp(n_active, &counts->of_experts_active);
}

}  // namespace

void list_active(FfnActivation act, const float* gate, const float* up, const ExpertGroups& groups,
                 int64_t d_expert, const ActiveOfRows& to, DeviceCounts* counts, cudaStream_t stream) {
  if (groups.n_pairs == 0) return;
  visit_activation(act.kind, [&]<Activation kKind>() {
    check(gpu_launch(
              [=] {  // lists of few neurons
                const int64_t rows = groups.counts[1];
                return KernelWork{.kind = KernelClass::kList,
                                  .bytes = floats((up == nullptr ? 1 : 2) * rows * d_expert + rows)};
              },
              gpu_kernel<list_active_kernel<kKind>>, static_cast<unsigned>(groups.n_pairs), kListThreads, 0,
              stream, gate, up, groups.counts + 1, d_expert, numbers_of(act), to, counts),
          "listing experts' active neurons");
  });
}

// ---- the sum over active neurons ----

namespace {

constexpr int kThreads = 64;  // a row of 2,560 columns has 20 thread blocks, so 6 experts have 120
constexpr int kInFlight = 8;  // neurons whose codes a thread loads at the same time
constexpr int kListed = 256;  // neurons of the list in shared memory

/// Down rows of floats. A unit is a column.
template <FloatKind kKind>
struct FloatUnits {
  static constexpr int kColumns = 1;
  static constexpr size_t kBytes = kKind == FloatKind::kF32 ? 4 : 2;
  struct Raw {
    unsigned bits = 0;
  };
  struct Sums {
    float sum[kColumns] = {};
  };
  const uint8_t* data;
  size_t stride;
  int64_t n_cols;

  int64_t n_units() const { return n_cols; }
  double row_bytes() const { return static_cast<double>(kBytes) * static_cast<double>(n_cols); }
  double group_bytes() const { return 0; }
  __host__ __device__ __forceinline__ int group_of(int32_t /*neuron*/) const { return 0; }

  __device__ __forceinline__ FloatUnits at_slot(size_t offset) const {
    return {data + offset, stride, n_cols};
  }
  __device__ __forceinline__ int64_t column(int64_t unit, int) const { return unit; }
  __device__ __forceinline__ void load(int32_t neuron, bool, int64_t unit, Raw& raw) const {
    const uint8_t* at = data + static_cast<size_t>(neuron) * stride + static_cast<size_t>(unit) * kBytes;
    raw.bits = kBytes == 4 ? *gpu_aligned<unsigned>(at) : load_half(at);
  }
  __device__ __forceinline__ void add(int32_t, float value, const Raw& raw, Sums& sums) const {
    float weight = __uint_as_float(kKind == FloatKind::kF32 ? raw.bits : raw.bits << 16);
    if (kKind == FloatKind::kF16) weight = half_value(raw.bits);
    sums.sum[0] = __fmaf_rn(value, weight, sums.sum[0]);
  }
  __device__ __forceinline__ void finish(Sums&) const {}
};

/// CodedColumns. A unit is a byte of a neuron's codes: one column of 8 bits, or two columns of 4 bits that
/// are 16 columns apart.
template <int kBits, bool kHalves, bool kMins>
struct CodedUnits {
  static constexpr int kColumns = kBits == 4 ? 2 : 1;
  static constexpr size_t kFactorBytes = kHalves ? 2 : 4;
  struct Raw {
    unsigned codes = 0;
    unsigned scale[kColumns] = {}, min[kColumns] = {};  // valid for the first listed neuron of a group
  };
  struct Sums {
    float sum[kColumns] = {};
    // Of the current group:
    int group = -1;
    float total = 0;
    float dot[kColumns] = {}, scale[kColumns] = {}, min[kColumns] = {};
  };
  const uint8_t* codes;
  size_t stride;
  const uint8_t* scales;
  const uint8_t* mins;
  int64_t n_cols_padded;
  int group_shift, offset;

  int64_t n_units() const { return n_cols_padded / kColumns; }
  double row_bytes() const { return static_cast<double>(n_units()); }
  double group_bytes() const {
    return static_cast<double>(kFactorBytes * (kMins ? 2 : 1)) * static_cast<double>(n_cols_padded);
  }
  __host__ __device__ __forceinline__ int group_of(int32_t neuron) const { return neuron >> group_shift; }

  __device__ __forceinline__ CodedUnits at_slot(size_t offset_bytes) const {
    return {codes + offset_bytes,
            stride,
            scales + offset_bytes,
            kMins ? mins + offset_bytes : nullptr,
            n_cols_padded,
            group_shift,
            offset};
  }
  __device__ __forceinline__ int64_t column(int64_t unit, int k) const {
    return kBits == 4 ? unit / 16 * 32 + unit % 16 + 16 * k : unit;
  }
  __device__ __forceinline__ void load(int32_t neuron, bool begins, int64_t unit, Raw& raw) const {
    raw.codes = codes[static_cast<size_t>(neuron) * stride + static_cast<size_t>(unit)];
    if (!begins) return;
    GPU_UNROLL for (int k = 0; k < kColumns; ++k) {
      const size_t at =
          static_cast<size_t>(group_of(neuron) * n_cols_padded + column(unit, k)) * kFactorBytes;
      raw.scale[k] = load_factor(scales + at);
      if (kMins) raw.min[k] = load_factor(mins + at);
    }
  }
  __device__ __forceinline__ void add(int32_t neuron, float value, const Raw& raw, Sums& sums) const {
    if (group_of(neuron) != sums.group) {
      finish(sums);
      sums.group = group_of(neuron);
      sums.total = 0.0f;
      GPU_UNROLL for (int k = 0; k < kColumns; ++k) {
        sums.dot[k] = 0.0f;
        sums.scale[k] = factor(raw.scale[k]);
        if (kMins) sums.min[k] = factor(raw.min[k]);
      }
    }
    sums.total = __fadd_rn(sums.total, value);
    GPU_UNROLL for (int k = 0; k < kColumns; ++k) {
      const int code = kBits == 4 ? static_cast<int>(raw.codes >> (4 * k) & 15) - offset
                                  : static_cast<int>(static_cast<int8_t>(raw.codes));
      sums.dot[k] = __fmaf_rn(value, static_cast<float>(code), sums.dot[k]);
    }
  }
  /// Adds the current group to the sum.
  __device__ __forceinline__ void finish(Sums& sums) const {
    if (sums.group < 0) return;
    GPU_UNROLL for (int k = 0; k < kColumns; ++k) {
      sums.sum[k] = __fmaf_rn(sums.scale[k], sums.dot[k], sums.sum[k]);
      if (kMins) sums.sum[k] = __fmaf_rn(sums.total, sums.min[k], sums.sum[k]);
    }
  }

 private:
  static __device__ __forceinline__ unsigned load_factor(const uint8_t* at) {
    return kHalves ? load_half(at) : *gpu_aligned<unsigned>(at);
  }
  static __device__ __forceinline__ float factor(unsigned bits) {
    return kHalves ? half_value(bits) : __uint_as_float(bits);
  }
};

struct SumCall {
  size_t slot_bytes;
  ActiveOfRows active;
  const ExpertTile* tiles;
  const int32_t* n_tiles;
  int first_slot, end_slot;
  int64_t d_expert, d_model;
  const float* bias;
  float* out;

  __host__ __device__ __forceinline__ bool computes(const ExpertTile& tile) const {
    return tile.slot >= first_slot && tile.slot < end_slot;
  }
};

/// Thread block (x, y, z) computes 64 units, from unit 64 * x on, of row z of tile y. Thread blocks that run
/// at the same time differ mainly in x, so they read neighboring bytes of the same down rows.
template <class Source>
__global__ void __launch_bounds__(kThreads) add_active_kernel(Source first, SumCall call) {
  __shared__ int32_t ids[kListed];
  __shared__ float values[kListed];
  if (static_cast<int32_t>(blockIdx.y) >= *call.n_tiles) return;
  const ExpertTile tile = call.tiles[blockIdx.y];
  if (!call.computes(tile) || static_cast<int32_t>(blockIdx.z) >= tile.n_rows) return;
  const Source source = first.at_slot(static_cast<size_t>(tile.slot - call.first_slot) * call.slot_bytes);
  const int64_t row = tile.first_row + static_cast<int64_t>(blockIdx.z);
  const int64_t unit = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const bool computes = source.column(unit, 0) < call.d_model;
  const int n = call.active.n[row];
  typename Source::Sums sums;
  int loaded = -1;  // the group of the neuron that was loaded last
  for (int begin = 0; begin < n; begin += kListed) {
    const int n_listed = min(n - begin, kListed);
    for (int i = static_cast<int>(threadIdx.x); i < n_listed; i += kThreads) {
      ids[i] = call.active.ids[row * call.d_expert + begin + i];
      values[i] = call.active.values[row * call.d_expert + begin + i];
    }
    __syncthreads();
    for (int i = 0; computes && i < n_listed; i += kInFlight) {
      typename Source::Raw raw[kInFlight];
      GPU_UNROLL for (int r = 0; r < kInFlight; ++r) {
        if (i + r >= n_listed) break;
        const int32_t neuron = ids[i + r];
        source.load(neuron, source.group_of(neuron) != loaded, unit, raw[r]);
        loaded = source.group_of(neuron);
      }
      GPU_UNROLL for (int r = 0; r < kInFlight; ++r) {
        if (i + r < n_listed) source.add(ids[i + r], values[i + r], raw[r], sums);
      }
    }
    __syncthreads();
  }
  if (!computes) return;
  source.finish(sums);
  GPU_UNROLL for (int k = 0; k < Source::kColumns; ++k) {
    const int64_t column = source.column(unit, k);
    if (column >= call.d_model) break;
    float sum = sums.sum[k];
    if (call.bias != nullptr) sum = __fadd_rn(sum, call.bias[tile.expert * call.d_model + column]);
    call.out[row * call.d_model + column] = sum;
  }
}

/// The declared work: each tile reads the rows that at least one of its tokens wants, once.
template <class Source>
KernelWork work_of(const Source& source, const SumCall& call) {
  KernelWork work{.kind = KernelClass::kDownRows};
  std::vector<int> read_by(static_cast<size_t>(call.d_expert), -1);  // the last tile that reads the neuron
  for (int32_t t = 0; t < *call.n_tiles; ++t) {
    const ExpertTile& tile = call.tiles[t];
    if (!call.computes(tile)) continue;
    for (int64_t row = tile.first_row; row < tile.first_row + tile.n_rows; ++row) {
      const int32_t* ids = call.active.ids + row * call.d_expert;
      const int64_t n = call.active.n[row];
      int group = -1;
      for (int64_t i = 0; i < n; ++i) {
        if (row == tile.first_row && source.group_of(ids[i]) != group) work.bytes += source.group_bytes();
        group = source.group_of(ids[i]);
        int& last = read_by[static_cast<size_t>(ids[i])];
        if (last != t) work.bytes += source.row_bytes();
        last = t;
      }
      work.bytes += floats(2 * n + call.d_model);
      work.instructions += 5.0 * static_cast<double>(n * call.d_model);
    }
  }
  return work;
}

template <class Source>
void launch(const Source& source, const SumCall& call, const ExpertGroups& groups, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((source.n_units() + kThreads - 1) / kThreads),
                  static_cast<unsigned>(groups.max_tiles), static_cast<unsigned>(groups.tile_rows));
  check(gpu_launch([=] { return work_of(source, call); }, gpu_kernel<add_active_kernel<Source>>, grid,
                   kThreads, 0, stream, source, call),
        "adding the down rows of experts' active neurons");
}

const uint8_t* bytes_of(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }

/// Calls visit(source) with the units of these down columns.
template <int kBits, class Visitor>
void visit_coded(const CodedColumns& coded, Visitor&& visit) {
  const auto of = [&]<bool kHalves, bool kMins>() {
    visit(CodedUnits<kBits, kHalves, kMins>{
        bytes_of(coded.codes), coded.stride, bytes_of(coded.scales), bytes_of(coded.mins),
        coded.n_cols_padded, std::countr_zero(static_cast<unsigned>(coded.group)), coded.offset});
  };
  if (coded.half_scales) {
    coded.mins == nullptr ? of.template operator()<true, false>() : of.template operator()<true, true>();
  } else {
    coded.mins == nullptr ? of.template operator()<false, false>() : of.template operator()<false, true>();
  }
}

template <class Visitor>
void visit_units(const DownColumns& down, Visitor&& visit) {
  if (!down.rows)
    return down.coded.bits == 4 ? visit_coded<4>(down.coded, visit) : visit_coded<8>(down.coded, visit);
  const uint8_t* data = bytes_of(down.rows.data);
  const size_t stride = down.rows.stride_bytes();
  switch (down.rows.dtype) {
    case DType::kF16:
      return visit(FloatUnits<FloatKind::kF16>{data, stride, down.n_cols});
    case DType::kBF16:
      return visit(FloatUnits<FloatKind::kBF16>{data, stride, down.n_cols});
    default:
      assert(down.rows.dtype == DType::kF32);
      return visit(FloatUnits<FloatKind::kF32>{data, stride, down.n_cols});
  }
}

}  // namespace

void add_active_rows(const DownColumns& first, size_t slot_bytes, const ActiveOfRows& active,
                     const ExpertGroups& groups, const float* bias, float* out, cudaStream_t stream) {
  if (groups.n_pairs == 0) return;
  const SumCall call{.slot_bytes = slot_bytes,
                     .active = active,
                     .tiles = groups.tiles,
                     .n_tiles = groups.counts,
                     .first_slot = groups.first_slot,
                     .end_slot = groups.end_slot,
                     .d_expert = first.n_neurons,
                     .d_model = first.n_cols,
                     .bias = bias,
                     .out = out};
  visit_units(first, [&](const auto& source) { launch(source, call, groups, stream); });
}

}  // namespace hearth::cuda
