// Multiplies quantized weights by the activations of many tokens in tiles. The functions in the AVX-512
// tables (avx512_kernels()) do all other work.
//
// Each vector of a panel (simd/matmul_panel.h) holds four columns of 16 rows, which is the layout that a tile
// needs for the second factor. The first factor is the quants of 16 tokens, read in place. Their product is
// another tile, which has a vector for each token: the integer sums of 16 rows. AVX-512 code then turns the
// sums into results, with the float arithmetic of matmul_kernels.h. Since each weight group has its own
// scales, a product covers one group. A group of 32 columns fills half of what TDPBSSD can multiply, and a
// group of 16 fills a quarter.
//
// Tiles is the class of tile operations: AmxTiles (tiles_amx.h), or an emulation in tests. Source files that
// include this header are compiled for AVX-512. Their Tiles class is in an anonymous namespace, so all
// instantiations are local to the file.
#pragma once

#include "kernels/cpu/amx/tile_config.h"
#include "kernels/cpu/avx512/simd_avx512.h"
#include "kernels/cpu/simd/matmul_many.h"
#include "kernels/cpu/simd/matmul_planes.h"
#include "kernels/cpu/simd/matmul_sums.h"

namespace hearth {
namespace {

/// The class of vector operations that multiply_many() takes as a template argument. planes: bytes of a
/// quantized activation, 1 or 2.
template <class Tiles, int planes>
struct TileSimd : BytePlanes<Avx512Vectors, planes> {
  using Base = BytePlanes<Avx512Vectors, planes>;
  using typename Base::Float;
  using typename Base::Int;
  static constexpr bool kSubtractsOffset = true;  // by arrange()

  /// Subtracts the offset from a panel's weights, because TDPBSSD multiplies signed bytes. The sums of
  /// products then need no correction.
  template <int offset>
  static void arrange(Int* quants, int n) {
    if constexpr (offset != 0) {
      const Int v = Base::bytes(offset);
      for (int i = 0; i < n; ++i) quants[i] = _mm512_sub_epi8(quants[i], v);
    }
  }

  /// Multiplies a pair of panels by n_tokens tokens. The last tile may contain tokens that an earlier tile
  /// has multiplied. Their sums are not added to the totals again. REQUIRES: n_tokens >= kTileTokens.
  template <class G>
  static void multiply_pair(const PanelPair<TileSimd>& pair, int n_spans, const ActivationPlanes& x,
                            int n_tokens, Float* totals) {
    int t = 0;
    for (; t + kTileTokens <= n_tokens; t += kTileTokens) {
      multiply_tokens<G>(pair, n_spans, tokens_later(x, t), 0, totals + t);
    }
    if (t == n_tokens) return;
    const int first = n_tokens - kTileTokens;
    multiply_tokens<G>(pair, n_spans, tokens_later(x, first), t - first, totals + first);
  }

 private:
  /// Describes a block of type G to add_sums(), but with offset 0, because arrange() has subtracted the
  /// offset.
  template <class G>
  struct SignedBlock {
    static constexpr int kGroup = G::kGroup;
    static constexpr int kOffset = 0;
    static constexpr bool kHasMin = G::kHasMin;
  };
  template <class G>
  static constexpr int kParts = kActivationSpan / G::kGroup;

  /// The integer sums of a span, separately for each plane.
  template <class G>
  struct alignas(64) SpanSums {
    Int of[kParts<G>][planes][2][kTileTokens];  // [weight group][plane][panel][token], lane = row
  };

  /// Multiplies by kTileTokens tokens, and adds the sums of all tokens except for the first `done` to their
  /// totals. The next span is multiplied before the sums of this span are read, so that vector code need not
  /// wait for the tiles.
  template <class G>
  static void multiply_tokens(const PanelPair<TileSimd>& pair, int n_spans, const ActivationPlanes& x,
                              int done, Float* totals) {
    SpanSums<G> sums[2];
    multiply_span<G>(pair, 0, x, sums[0]);
    for (int span = 0; span < n_spans; ++span) {
      if (span + 1 < n_spans) multiply_span<G>(pair, span + 1, x, sums[(span + 1) % 2]);
      add_span<G>(pair, span, x, sums[span % 2], done, totals);
    }
  }

  template <class G>
  static void multiply_span(const PanelPair<TileSimd>& pair, int span, const ActivationPlanes& x,
                            SpanSums<G>& sums) {
    const std::byte* quants = x.quants + span * kSpanBytesOf<TileSimd>;
    for (int part = 0; part < kParts<G>; ++part, quants += G::kGroup) {
      const int first = (span * kParts<G> + part) * (G::kGroup / 4);
      Tiles::template load<kWeightsTile>(pair.quants[0] + first, sizeof(Int));
      Tiles::template load<kWeightsTile + 1>(pair.quants[1] + first, sizeof(Int));
      multiply_plane<0>(quants, x.stride);
      if constexpr (planes == 2) multiply_plane<1>(quants + kActivationSpan, x.stride);
      store_plane<0>(sums.of[part][0]);
      if constexpr (planes == 2) store_plane<1>(sums.of[part][1]);
    }
  }

  template <int plane>
  static void multiply_plane(const std::byte* quants, size_t stride) {
    constexpr int kActivations = kActivationsTile + plane, kSums = kSumsTile + 2 * plane;
    Tiles::template load<kActivations>(quants, stride);
    Tiles::template zero<kSums>();
    Tiles::template zero<kSums + 1>();
    Tiles::template multiply<kSums, kActivations, kWeightsTile>();
    Tiles::template multiply<kSums + 1, kActivations, kWeightsTile + 1>();
  }

  template <int plane>
  static void store_plane(Int (&sums)[2][kTileTokens]) {
    Tiles::template store<kSumsTile + 2 * plane>(sums[0]);
    Tiles::template store<kSumsTile + 2 * plane + 1>(sums[1]);
  }

  template <class G>
  static void add_span(const PanelPair<TileSimd>& pair, int span, const ActivationPlanes& x,
                       const SpanSums<G>& sums, int done, Float* totals) {
    const int g = span * kParts<G>;
    for (int p = 0; p < 2; ++p) {
      for (int t = done; t < kTileTokens; ++t) {
        Int of_groups[kParts<G>];
#pragma GCC unroll 2
        for (int part = 0; part < kParts<G>; ++part) {
          const auto& of = sums.of[part];
          of_groups[part] = planes == 1 ? of[0][p][t] : Base::of_planes(of[0][p][t], of[planes - 1][p][t]);
        }
        Float& total = totals[p * kPassTokens + t];
        total = add_sums<TileSimd, SignedBlock<G>>(total, of_groups, pair.scale[p] + g, pair.min[p] + g,
                                                   tokens_later(x, t), span);
      }
    }
  }
};

template <int planes>
const MatmulKernels& avx512_kernels() {
  return planes == 2 ? kMatmulKernelsAvx512 : kMatmulBytesAvx512;
}

template <int planes>
void quantize_like_avx512(const float* x, int64_t n_cols, std::byte* out) {
  avx512_kernels<planes>().quantize(x, n_cols, out);
}

template <int planes, DType type>
void multiply_like_avx512(const MatmulArgs& args) {
  avx512_kernels<planes>().multiply[static_cast<size_t>(type)](args);
}

/// Multiplies in tile registers. If the last pass has fewer tokens than a tile has rows, AVX-512 code
/// computes that pass.
template <class Tiles, int planes, class Block, DType type>
void multiply_by_tiles(const MatmulArgs& args) {
  const int last_pass = args.n_tokens % kPassTokens;
  const int n_tiled = last_pass < kTileTokens ? args.n_tokens - last_pass : args.n_tokens;
  if (n_tiled > 0) {
    MatmulArgs tiled = args;
    tiled.n_tokens = n_tiled;
    Tiles::configure(kTileConfig<Block::kGroup>);
    multiply_many<TileSimd<Tiles, planes>, Block>(tiled);
    Tiles::release();
  }
  if (n_tiled == args.n_tokens) return;
  MatmulArgs rest = args;
  rest.n_tokens = args.n_tokens - n_tiled;
  rest.out += n_tiled * args.out_stride;
  rest.quantized += static_cast<size_t>(n_tiled) * activation_row_size(args.weight->n_cols, planes);
  multiply_like_avx512<planes, type>(rest);
}

/// The table of functions, which has an entry for every type in the order of DType.
template <class Tiles, int planes>
constexpr MatmulKernels tile_table() {
  return {quantize_like_avx512<planes>,
          {multiply_like_avx512<planes, DType::kF32>,
           multiply_like_avx512<planes, DType::kF16>,
           multiply_like_avx512<planes, DType::kBF16>,
           multiply_by_tiles<Tiles, planes, BlockQ4_0, DType::kQ4_0>,
           multiply_by_tiles<Tiles, planes, BlockQ4_1, DType::kQ4_1>,
           multiply_by_tiles<Tiles, planes, BlockQ5_0, DType::kQ5_0>,
           multiply_by_tiles<Tiles, planes, BlockQ5_1, DType::kQ5_1>,
           multiply_by_tiles<Tiles, planes, BlockQ8_0, DType::kQ8_0>,
           multiply_by_tiles<Tiles, planes, BlockQ2_K, DType::kQ2_K>,
           multiply_by_tiles<Tiles, planes, BlockQ3_K, DType::kQ3_K>,
           multiply_by_tiles<Tiles, planes, BlockQ4_K, DType::kQ4_K>,
           multiply_by_tiles<Tiles, planes, BlockQ5_K, DType::kQ5_K>,
           multiply_by_tiles<Tiles, planes, BlockQ6_K, DType::kQ6_K>,
           multiply_by_tiles<Tiles, planes, BlockIQ4_NL, DType::kIQ4_NL>,
           multiply_by_tiles<Tiles, planes, BlockIQ4_XS, DType::kIQ4_XS>,
           multiply_by_tiles<Tiles, planes, BlockMXFP4, DType::kMXFP4>,
           multiply_by_tiles<Tiles, planes, BlockNVFP4, DType::kNVFP4>,
           multiply_by_tiles<Tiles, planes, BlockIQ2_XXS, DType::kIQ2_XXS>,
           multiply_by_tiles<Tiles, planes, BlockIQ2_XS, DType::kIQ2_XS>,
           multiply_by_tiles<Tiles, planes, BlockIQ2_S, DType::kIQ2_S>,
           multiply_by_tiles<Tiles, planes, BlockIQ3_XXS, DType::kIQ3_XXS>,
           multiply_by_tiles<Tiles, planes, BlockIQ3_S, DType::kIQ3_S>,
           multiply_by_tiles<Tiles, planes, BlockIQ1_S, DType::kIQ1_S>,
           multiply_by_tiles<Tiles, planes, BlockIQ1_M, DType::kIQ1_M>,
           multiply_by_tiles<Tiles, planes, BlockTQ1_0, DType::kTQ1_0>,
           multiply_by_tiles<Tiles, planes, BlockTQ2_0, DType::kTQ2_0>}};
}

}  // namespace
}  // namespace hearth
