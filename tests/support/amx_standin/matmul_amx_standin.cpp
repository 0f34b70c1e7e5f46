// AMX's loops over the stand-in for its tiles. Replaces kernels/cpu/amx/matmul_amx.cpp in programs that link
// this object; compiled with the same flags except AMX's own.
#include "kernels/cpu/amx/matmul_tiles.h"
#include "tests/support/amx_standin/tiles.h"

namespace hearth {
namespace {

struct StandInTiles {
  static void configure(const TileConfig& config) { testing::configure_tiles(config); }
  static void release() { testing::release_tiles(); }
  template <int tile>
  static void load(const void* p, size_t stride) {
    testing::load_tile(tile, p, stride);
  }
  template <int tile>
  static void zero() {
    testing::zero_tile(tile);
  }
  template <int sums, int activations, int weights>
  static void multiply() {
    testing::multiply_tiles(sums, activations, weights);
  }
  template <int tile>
  static void store(void* p) {
    testing::store_tile(tile, p, kTileRowBytes);
  }
};

}  // namespace

const MatmulKernels kMatmulKernelsAmx = tile_table<StandInTiles, 2>();
const MatmulKernels kMatmulBytesAmx = tile_table<StandInTiles, 1>();

}  // namespace hearth
