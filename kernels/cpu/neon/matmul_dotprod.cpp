// Matmul loops for NEON with the dot products of ARMv8.2 (Cortex-A76, so a Raspberry Pi 5; Neoverse; Apple):
// a vector holds 8 weight rows.
//
// Compiled with dot products enabled: nothing in this file may have external linkage but the tables.
#include "kernels/cpu/neon/dot_neon.h"

namespace hearth {

const MatmulKernels kMatmulKernelsNeonDotprod =
    matmul_table<Dotprod<2>, Neon>(quantize_activation_row<2, largest_bits, quantize_half<2>>);
const MatmulKernels kMatmulBytesNeonDotprod =
    matmul_table<Dotprod<1>, Neon>(quantize_activation_row<1, largest_bits, quantize_half<1>>);

}  // namespace hearth
