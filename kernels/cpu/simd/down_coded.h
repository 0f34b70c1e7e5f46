// Multiplies CodedColumns by values. For each group of neurons, sums the products of codes first, then scales
// each sum once.
#pragma once

#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/simd/down_strips.h"

namespace hearth {

/// The number of strips whose sums stay in registers while the neurons of a group are added.
template <class S>
inline constexpr int kCodedStrips = S::kSumStrips;

/// Returns the codes of one strip of a neuron. `values` is the result of code_values(), so the offset is
/// subtracted already.
template <class S, int bits>
[[gnu::always_inline]] inline typename S::Strip code_strip(const std::byte* codes, int64_t strip,
                                                           typename S::Values values) {
  if constexpr (bits == 4) return S::nibbles(codes + strip * 16, values);
  return S::bytes(codes + strip * kStripColumns);
}

/// Returns 32 scales or mins of a group, in the column order of a strip of codes of this many bits.
template <class S, int bits>
[[gnu::always_inline]] inline typename S::Strip factor_strip(const CodedColumns& coded,
                                                             const std::byte* table, int64_t group,
                                                             int64_t column) {
  const int64_t at = group * coded.n_cols_padded + column;
  if (coded.half_scales) return bits == 4 ? S::halves_nibbled(table + 2 * at) : S::halves(table + 2 * at);
  return load_strip<S, bits == 4>(reinterpret_cast<const float*>(table + 4 * at));
}

/// Returns the value of each 4-bit code: the code minus the offset.
template <class S>
[[gnu::always_inline]] inline typename S::Values code_values(const CodedColumns& coded) {
  if (coded.offset == 8) return S::plain(S::template values<kQ4Values>());
  if (coded.offset == 4) return S::plain(S::template values<kQ3Values>());
  return S::plain(S::template values<kNibbleValues>());
}

/// sum = fma(scale, dot, sum), and then sum = fma(total, min, sum), for one strip.
template <class S, int bits>
[[gnu::always_inline]] inline typename S::Strip add_group(const CodedColumns& coded, int64_t group,
                                                          int64_t column, typename S::Strip dot, float total,
                                                          typename S::Strip sum) {
  sum = S::fma_strips(factor_strip<S, bits>(coded, coded.scales, group, column), dot, sum);
  if (coded.mins == nullptr) return sum;
  return S::fma(total, factor_strip<S, bits>(coded, coded.mins, group, column), sum);
}

/// Adds one group's n neurons to n_strips strips, starting at `strip`.
template <class S, int bits, int n_strips>
[[gnu::always_inline]] inline void add_coded_strips(const CodedColumns& coded, const int32_t* ids,
                                                    const float* values, int n, float total, int64_t strip,
                                                    typename S::Values table, float* sums,
                                                    typename S::Strip* out) {
  typename S::Strip dot[n_strips];
  for (int k = 0; k < n_strips; ++k) dot[k] = S::zero();
  for (int i = 0; i < n; ++i) {
    const std::byte* codes = coded.codes + static_cast<size_t>(ids[i]) * coded.stride;
#pragma GCC unroll 8
    for (int k = 0; k < n_strips; ++k) {
      dot[k] = S::fma(values[i], code_strip<S, bits>(codes, strip + k, table), dot[k]);
    }
  }
  const int64_t group = ids[0] / coded.group;
  for (int k = 0; k < n_strips; ++k) {
    const typename S::Strip sum =
        sums == nullptr ? S::zero() : load_strip<S, bits == 4>(sums + k * kStripColumns);
    out[k] = add_group<S, bits>(coded, group, (strip + k) * kStripColumns, dot[k], total, sum);
  }
}

/// Adds one group's neurons to the columns [begin, end); prefetches the next group's rows and factors.
template <class S, int bits>
void add_coded_group(const DownArgs& args, int first, int n, int n_next, bool fresh) {
  const CodedColumns& coded = args.down->coded;
  const int32_t* ids = args.ids + first;
  const float* values = args.values + first;
  const int32_t* next = ids + n;
  const typename S::Values table = code_values<S>(coded);
  float total = 0.0f;
  for (int i = 0; i < n; ++i) total += values[i];
  constexpr int kStrips = kCodedStrips<S>;
  constexpr size_t kStripBytes = kStripColumns * bits / 8;
  const int64_t begin = args.column_begin / kStripColumns;
  const int64_t end = (args.column_end + kStripColumns - 1) / kStripColumns;
  const size_t factor_bytes = (coded.half_scales ? 2 : 4) * kStripColumns;
  for (int64_t strip = begin; strip < end;) {
    float* sum = args.sum + (strip - begin) * kStripColumns;
    const int64_t columns_left = args.column_end - strip * kStripColumns;
    const bool whole = columns_left >= kStrips * kStripColumns;
    const int n_strips = whole ? kStrips : 1;
    for (int i = 0; i < n_next; ++i) {
      const std::byte* at = coded.codes + static_cast<size_t>(next[i]) * coded.stride + strip * kStripBytes;
      for (size_t b = 0; b < n_strips * kStripBytes; b += 64) __builtin_prefetch(at + b);
    }
    if (n_next > 0) {
      const size_t at = (next[0] / coded.group * coded.n_cols_padded / kStripColumns + strip) * factor_bytes;
      for (size_t b = 0; b < n_strips * factor_bytes; b += 64) {
        __builtin_prefetch(coded.scales + at + b);
        if (coded.mins != nullptr) __builtin_prefetch(coded.mins + at + b);
      }
    }
    typename S::Strip out[kStrips];
    if (whole) {
      add_coded_strips<S, bits, kStrips>(coded, ids, values, n, total, strip, table, fresh ? nullptr : sum,
                                         out);
      for (int k = 0; k < kStrips; ++k) store_strip<S, bits == 4>(out[k], sum + k * kStripColumns);
      strip += kStrips;
      continue;
    }
    // Add the remaining strips one by one. The last one may have fewer columns: codes and factors are padded
    // to a whole strip, but sums are not.
    const size_t bytes =
        static_cast<size_t>(columns_left < kStripColumns ? columns_left : kStripColumns) * sizeof(float);
    float last[kStripColumns] = {};
    if (!fresh) __builtin_memcpy(last, sum, bytes);
    add_coded_strips<S, bits, 1>(coded, ids, values, n, total, strip, table, last, out);
    store_strip<S, bits == 4>(out[0], last);
    __builtin_memcpy(sum, last, bytes);
    ++strip;
  }
}

/// Implements DownKernels::add_coded.
template <class S>
void add_coded(const DownArgs& args) {
  const int group = args.down->coded.group;
  const auto group_end = [&](int i) {
    const int32_t limit = (args.ids[i] / group + 1) * group;
    while (i < args.n && args.ids[i] < limit) ++i;
    return i;
  };
  int end = group_end(0);
  for (int first = 0; first < args.n;) {
    const int next_end = end < args.n ? group_end(end) : end;
    const bool fresh = args.fresh && first == 0;
    if (args.down->coded.bits == 4) {
      add_coded_group<S, 4>(args, first, end - first, next_end - end, fresh);
    } else {
      add_coded_group<S, 8>(args, first, end - first, next_end - end, fresh);
    }
    first = end;
    end = next_end;
  }
}

/// Implements DownKernels::decode. Writes whole strips, so out must have room for n rounded up to a multiple
/// of 32.
template <class S>
void decode_codes(const CodedColumns& coded, int64_t neuron, int64_t column, int64_t n, float* out) {
  const std::byte* codes = coded.codes + static_cast<size_t>(neuron) * coded.stride;
  const typename S::Values table = code_values<S>(coded);
  for (int64_t c = 0; c < n; c += kStripColumns) {
    const int64_t strip = (column + c) / kStripColumns;
    if (coded.bits == 4) {
      store_strip<S, true>(code_strip<S, 4>(codes, strip, table), out + c);
    } else {
      store_strip<S, false>(code_strip<S, 8>(codes, strip, table), out + c);
    }
  }
}

/// Implements DownKernels::factors. Writes whole strips, so out must have room for n rounded up to a multiple
/// of 32.
template <class S>
void decode_factors(const CodedColumns& coded, const std::byte* table, int64_t group, int64_t column,
                    int64_t n, float* out) {
  for (int64_t c = 0; c < n; c += kStripColumns) {
    S::store(factor_strip<S, 8>(coded, table, group, column + c), out + c);
  }
}

}  // namespace hearth
