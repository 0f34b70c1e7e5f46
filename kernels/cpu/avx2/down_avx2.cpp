// DownKernels for AVX2 with FMA and F16C: a strip of 32 floats is four registers.
//
// Compiled with AVX2 enabled: nothing in this file may have external linkage but the table.
#include "kernels/cpu/avx2/strips_avx2.h"
#include "kernels/cpu/simd/down_table.h"

namespace hearth {

const DownKernels kDownKernelsAvx2 = down_table<Avx2Down>();

}  // namespace hearth
