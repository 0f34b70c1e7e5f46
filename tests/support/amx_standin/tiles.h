// Stands in for AMX's tile registers (kernels/cpu/amx/tiles_amx.h), so that its loops are tested on processors without them.
//
// Every thread has its own tiles, as on a processor. What would be an illegal instruction or a general protection fault
// there throws std::logic_error here: a shape beyond the palette, a tile without a shape, factors that do not fit. Reads
// and writes outside an array are left to AddressSanitizer. Declarations only, because the unit that has the loops is compiled
// for AVX-512, and tiles.cpp for any x86-64.
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

/// Whether this thread's tiles have shapes.
bool tiles_are_configured();

/// multiply_tiles() of this thread so far.
int64_t tile_products();

}  // namespace hearth::testing
