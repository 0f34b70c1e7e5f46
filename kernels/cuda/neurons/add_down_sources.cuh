// Loads down rows that are floats or coded columns, eight weights at a time. See add_down_weights.cuh.
#pragma once

#include "kernels/cuda/neurons/add_down_weights.cuh"
#include "kernels/neurons.h"

namespace hearth::cuda {

enum class FloatKind { kF32, kF16, kBF16 };

/// Weights [n_neurons, n_cols] of a float type. Columns from n_cols on are read as zeros.
template <FloatKind kKind>
struct FloatRows {
  static constexpr int kRowsInFlight = 2, kBlocksPerSm = 3;
  static constexpr bool kTerms = false;
  static constexpr int kShift = 0;
  static constexpr size_t kBytes = kKind == FloatKind::kF32 ? 4 : 2;
  struct Raw {
    unsigned bits[kLaneColumns];
  };
  const uint8_t* data;
  size_t stride;
  int64_t n_cols;

  double row_bytes(int64_t) const { return static_cast<double>(kBytes) * static_cast<double>(n_cols); }

  __device__ __forceinline__ void load(int32_t row, int32_t, int64_t lane, Raw& raw) const {
    const int64_t column = lane * kLaneColumns;
    const uint8_t* at = data + static_cast<size_t>(row) * stride + static_cast<size_t>(column) * kBytes;
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      raw.bits[k] = 0;
      if (column + k >= n_cols) continue;
      raw.bits[k] = kBytes == 4 ? *gpu_aligned<unsigned>(at + 4 * k) : load_half(at + 2 * k);
    }
  }
  __device__ __forceinline__ void decode(const Raw& raw, int64_t, float (&weights)[kLaneColumns]) const {
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      if (kKind == FloatKind::kF16) {
        weights[k] = half_value(raw.bits[k]);
      } else {
        weights[k] = __uint_as_float(kKind == FloatKind::kF32 ? raw.bits[k] : raw.bits[k] << 16);
      }
    }
  }
};

/// The rows of CodedColumns. A group of neurons shares a row of scales, with one scale per column, and a row
/// of mins if the codes have mins.
template <int kBits, bool kHalves, bool kMins>
struct CodedRows {
  static constexpr int kRowsInFlight = 2, kBlocksPerSm = kMins ? 2 : 3;
  static constexpr bool kTerms = false;
  static constexpr int kShift = 0;
  struct Factors {
    uint4 words[kHalves ? 1 : 2];
  };
  struct Raw {
    Eight codes;
    Factors scales, mins;
  };
  const uint8_t* codes;
  size_t stride;
  const uint8_t* scales;
  const uint8_t* mins;
  int64_t n_cols_padded;
  int group;
  float offset;  // the difference between a code, read as unsigned, and its value

  /// Returns the bytes that the work declaration counts for one neuron: its codes, and a fourth of its
  /// group's scales and mins, because the neurons of a group share them.
  double row_bytes(int64_t) const {
    return static_cast<double>(n_cols_padded) * (kBits / 8.0 + (kHalves ? 2 : 4) * (kMins ? 2 : 1) / 4.0);
  }

  __device__ __forceinline__ void load(int32_t row, int32_t id, int64_t lane, Raw& raw) const {
    const uint8_t* own = codes + static_cast<size_t>(row) * stride;
    if (kBits == 4) {
      raw.codes = load_nibbles(own + lane / 4 * 16, static_cast<int>(lane % 4));
    } else {
      raw.codes = load_eight(own + lane * kLaneColumns);
    }
    const int64_t column = id / group * n_cols_padded + lane * kLaneColumns;
    load_factors(scales, column, raw.scales);
    if (kMins) load_factors(mins, column, raw.mins);
  }
  __device__ __forceinline__ void decode(const Raw& raw, int64_t lane, float (&weights)[kLaneColumns]) const {
    Eight q = raw.codes;
    if (kBits == 4) {
      q = own_nibbles(q, static_cast<int>(lane % 4));
    } else {
      q = {{q.word[0] ^ 0x80808080u, q.word[1] ^ 0x80808080u}};
    }
    GPU_UNROLL for (int k = 0; k < kLaneColumns; ++k) {
      weights[k] = __fmul_rn(factor(raw.scales, k), quant_value(q.word[k / 4], k % 4, offset));
      if (kMins) weights[k] = __fadd_rn(weights[k], factor(raw.mins, k));
    }
  }

 private:
  static __device__ __forceinline__ void load_factors(const uint8_t* table, int64_t column,
                                                      Factors& factors) {
    const auto* at = gpu_aligned<uint4>(table + column * (kHalves ? 2 : 4));
    GPU_UNROLL for (int i = 0; i < (kHalves ? 1 : 2); ++i) factors.words[i] = at[i];
  }
  static __device__ __forceinline__ float factor(const Factors& factors, int k) {
    const uint4 words = factors.words[kHalves ? 0 : k / 4];
    const int i = kHalves ? k / 2 : k % 4;
    const unsigned word = i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
    if (!kHalves) return __uint_as_float(word);
    return half_value(word >> (k % 2 * 16) & 0xffff);
  }
};

}  // namespace hearth::cuda
