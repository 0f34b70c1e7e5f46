// VectorKernels for AVX-512 F, BW, DQ and VL. This file is compiled with these flags. lanes_avx512.h has the
// lanes of this ISA.
#include "kernels/cpu/avx512/lanes_avx512.h"

#include "kernels/cpu/lanes/vector_table_inl.h"

namespace hearth {

const VectorKernels kVectorKernelsAvx512 = kVectorKernels;

}  // namespace hearth
