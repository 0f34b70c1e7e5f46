// Matmul loops for NEON with the dot products of ARMv8.2, which Cortex-A76 (Raspberry Pi 5), Neoverse and
// Apple's processors have. A vector holds 8 weight rows.
//
// This file is compiled with dot products enabled, so only the tables may have external linkage.
#include "kernels/cpu/neon/dot_neon.h"

namespace hearth {

const MatmulKernels kMatmulKernelsNeonDotprod =
    matmul_table<Dotprod<2>, Neon>(quantize_activation_row<2, largest_bits, quantize_half<2>>);
const MatmulKernels kMatmulBytesNeonDotprod =
    matmul_table<Dotprod<1>, Neon>(quantize_activation_row<1, largest_bits, quantize_half<1>>);

}  // namespace hearth
