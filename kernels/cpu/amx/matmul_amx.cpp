// Matmul loops for AMX (Intel's servers since Sapphire Rapids): the products of prompts with quantized
// weights use tiles.
//
// The loops are in matmul_tiles.h, because tests also run them on emulated tiles (tests/support/amx_standin).
// This file is compiled with AVX-512 and AMX enabled, so only the tables may have external linkage.
#include "kernels/cpu/amx/matmul_tiles.h"
#include "kernels/cpu/amx/tiles_amx.h"

namespace hearth {

const MatmulKernels kMatmulKernelsAmx = tile_table<AmxTiles, 2>();
const MatmulKernels kMatmulBytesAmx = tile_table<AmxTiles, 1>();

}  // namespace hearth
