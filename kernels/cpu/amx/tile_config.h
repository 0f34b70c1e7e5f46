// The shapes of the tile registers, in the format of LDTILECFG, and the use of each register in the matmul
// loops.
//
// Included by matmul_tiles.h, tiles_amx.h and the tests' emulation of tiles. All but TileConfig is in an
// anonymous namespace, so that source files compiled for AVX-512 share no code with other files.
#pragma once

#include <cstdint>

namespace hearth {

/// The memory that the instruction LDTILECFG loads (Intel SDM volume 1, chapter 18).
struct alignas(64) TileConfig {
  uint8_t palette = 1;  // 8 tiles of at most 16 rows of 64 bytes, the only palette there is
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

namespace {

/// The number of tokens in a product of tiles: one per row of a tile.
inline constexpr int kTileTokens = 16;

/// The bytes of one row of a weight tile or of a tile of sums: 4 bytes for each of the 16 weight rows of a
/// panel (matmul_panel.h).
inline constexpr int kTileRowBytes = 64;

/// The tile registers. An activation tile has one row per token. A weight tile has one row for each four
/// columns of the weights, like Panel::quants (matmul_panel.h). A tile of sums (32-bit integers) has one row
/// per token and one column per weight row.
enum Tile : int {
  kActivationsTile = 0,  // the first plane (high bytes); the next tile has the second plane (low bytes)
  kWeightsTile = 2,      // the pair's first panel; the next tile has the second panel
  kSumsTile = 4,         // four tiles: the sums of plane i and panel p are in tile kSumsTile + 2 * i + p
};
inline constexpr int kTiles = 8;

/// The shapes of the tile registers for weight groups of `group` columns.
template <int group>
inline constexpr TileConfig kTileConfig = [] {
  TileConfig config;
  for (int tile = 0; tile < kTiles; ++tile) {
    const bool weights = tile >= kWeightsTile && tile < kSumsTile;
    config.rows[tile] = weights ? group / 4 : kTileTokens;
    config.row_bytes[tile] = tile < kWeightsTile ? group : kTileRowBytes;
  }
  return config;
}();

}  // namespace
}  // namespace hearth
