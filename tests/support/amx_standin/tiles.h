// Stands in for AMX's tile registers (kernels/cpu/amx/tiles_amx.h), so that AMX's loops are tested on
// processors without AMX.
//
// Every thread has its own tiles, as on a processor. Where a processor would raise an illegal instruction or
// a general protection fault, this code throws std::logic_error: a shape beyond the palette, a tile without a
// shape, factors that do not fit. AddressSanitizer finds reads and writes outside an array. This header only
// declares, because the unit with the loops is compiled for AVX-512, and tiles.cpp for any x86-64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/amx/tile_config.h"

namespace hearth::testing {

void configure_tiles(const TileConfig& config);
void release_tiles();
void load_tile(int tile, const void* p, size_t stride);
void zero_tile(int tile);
void multiply_tiles(int sums, int a, int b);
void store_tile(int tile, void* p, size_t stride);

/// Returns whether this thread's tiles have shapes.
bool tiles_are_configured();

/// The number of multiply_tiles() calls of this thread so far.
int64_t tile_products();

}  // namespace hearth::testing
