// DownKernels for AVX-512 F, BW, DQ and VL: a strip of 32 floats is two registers.
//
// Compiled with AVX-512 enabled: nothing in this file may have external linkage but the table.
#include "kernels/cpu/avx512/strips_avx512.h"
#include "kernels/cpu/simd/down_table.h"

namespace hearth {

const DownKernels kDownKernelsAvx512 = down_table<Avx512Down>();

}  // namespace hearth
