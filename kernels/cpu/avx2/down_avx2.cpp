// DownKernels for AVX2 with FMA and F16C: a strip of 32 floats is four registers.
//
// This file is compiled with AVX2 enabled, so only the table may have external linkage.
#include "kernels/cpu/avx2/strips_avx2.h"
#include "kernels/cpu/simd/down_table.h"

namespace hearth {

const DownKernels kDownKernelsAvx2 = down_table<Avx2Down>();

}  // namespace hearth
