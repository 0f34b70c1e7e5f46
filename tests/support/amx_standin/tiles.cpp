// The stand-in for AMX's tile registers: Intel SDM volume 2, LDTILECFG, TILELOADD, TDPBSSD, TILESTORED, in
// plain C++.
#include "tests/support/amx_standin/tiles.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace hearth::testing {
namespace {

constexpr int kMostRows = 16;

struct TileRegister {
  int rows = 0, row_bytes = 0;  // 0 if the tile has no shape
  union {
    int8_t bytes[kMostRows][kTileRowBytes] = {};
    int32_t dwords[kMostRows][kTileRowBytes / 4];
  };
};

struct Tiles {
  bool configured = false;
  TileRegister tile[kTiles];
  int64_t products = 0;
};

thread_local Tiles tiles;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error("tiles: " + what);
}

TileRegister& shaped(int tile) {
  require(tile >= 0 && tile < kTiles, "there is no tile " + std::to_string(tile));
  TileRegister& found = tiles.tile[tile];
  require(tiles.configured && found.rows != 0, "tile " + std::to_string(tile) + " has no shape");
  return found;
}

}  // namespace

void configure_tiles(const TileConfig& config) {
  require(config.palette == 1 && config.start_row == 0, "the palette is not 1, or a load is to be resumed");
  for (const uint8_t byte : config.reserved) require(byte == 0, "a reserved byte is not 0");
  for (int i = kTiles; i < 16; ++i)
    require(config.rows[i] == 0 && config.row_bytes[i] == 0, "there are 8 tiles");
  for (int i = 0; i < kTiles; ++i) {
    const int rows = config.rows[i], row_bytes = config.row_bytes[i];
    require(rows <= kMostRows && row_bytes <= kTileRowBytes, "a shape is beyond the palette");
    require((rows == 0) == (row_bytes == 0), "a shape has rows without bytes, or bytes without rows");
    tiles.tile[i] = {};
    tiles.tile[i].rows = rows;
    tiles.tile[i].row_bytes = row_bytes;
  }
  tiles.configured = true;
}

void release_tiles() {
  tiles.configured = false;
  for (TileRegister& tile : tiles.tile) tile = {};
}

void load_tile(int tile, const void* p, size_t stride) {
  TileRegister& to = shaped(tile);
  zero_tile(tile);
  const char* row = static_cast<const char*>(p);
  for (int r = 0; r < to.rows; ++r, row += stride) {
    std::memcpy(to.bytes[r], row, static_cast<size_t>(to.row_bytes));
  }
}

void zero_tile(int tile) {
  TileRegister& to = shaped(tile);
  std::memset(to.bytes, 0, sizeof to.bytes);
}

void multiply_tiles(int sums, int a, int b) {
  require(sums != a && sums != b && a != b, "a product names a tile twice");
  TileRegister& to = shaped(sums);
  const TileRegister &first = shaped(a), &second = shaped(b);
  require(first.row_bytes % 4 == 0 && second.row_bytes % 4 == 0, "a row is no whole number of dwords");
  require(first.rows == to.rows && second.row_bytes == to.row_bytes && first.row_bytes == 4 * second.rows,
          "the shapes of a product do not fit");
  ++tiles.products;
  for (int m = 0; m < to.rows; ++m) {
    for (int k = 0; k < second.rows; ++k) {
      for (int n = 0; n < to.row_bytes / 4; ++n) {
        for (int i = 0; i < 4; ++i) to.dwords[m][n] += first.bytes[m][4 * k + i] * second.bytes[k][4 * n + i];
      }
    }
  }
}

void store_tile(int tile, void* p, size_t stride) {
  const TileRegister& from = shaped(tile);
  char* row = static_cast<char*>(p);
  for (int r = 0; r < from.rows; ++r, row += stride) {
    std::memcpy(row, from.bytes[r], static_cast<size_t>(from.row_bytes));
  }
}

bool tiles_are_configured() { return tiles.configured; }
int64_t tile_products() { return tiles.products; }

}  // namespace hearth::testing
