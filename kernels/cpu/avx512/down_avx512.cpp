// DownKernels for AVX-512 F, BW, DQ and VL: a strip of 32 floats is two registers.
//
// This file is compiled with AVX-512 enabled, so only the table may have external linkage.
#include "kernels/cpu/avx512/strips_avx512.h"
#include "kernels/cpu/simd/down_table.h"

namespace hearth {

const DownKernels kDownKernelsAvx512 = down_table<Avx512Down>();

}  // namespace hearth
