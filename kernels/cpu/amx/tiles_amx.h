// AmxTiles: the processor's tile registers (AMX-TILE and AMX-INT8), for the source file that is compiled with
// both.
//
// This class uses assembly because g++ 12's intrinsics have two faults: they accept only a literal as the
// register number, and the compiler may move a store past the load of a tile from the same memory.
#pragma once

#include <cstddef>

#include "kernels/cpu/amx/tile_config.h"

namespace hearth {
namespace {

struct AmxTiles {
  /// Gives the tiles their shapes and zeros them. They then belong to this thread until release().
  static void configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }

  /// Releases the tiles, so that Linux need not save them when it switches threads.
  static void release() { asm volatile("tilerelease"); }

  /// Loads the rows at p, p + stride, and so on.
  template <int tile>
  static void load(const void* p, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(tile) : "memory");
  }

  template <int tile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(tile));
  }

  /// sums[t][r] += the dot product of row t of `activations` with column r of `weights`, all bytes signed.
  /// Exact: nothing saturates.
  template <int sums, int activations, int weights>
  static void multiply() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(activations), "i"(weights));
  }

  /// Stores the rows one after another.
  template <int tile>
  static void store(void* p) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(size_t{kTileRowBytes}), "i"(tile) : "memory");
  }
};

}  // namespace
}  // namespace hearth
