// VectorKernels for AVX2, FMA and F16C. This file is compiled with these flags. lanes_avx2.h has the lanes of
// this ISA.
#include "kernels/cpu/avx2/lanes_avx2.h"

#include "kernels/cpu/lanes/vector_table_inl.h"

namespace hearth {

const VectorKernels kVectorKernelsAvx2 = kVectorKernels;

}  // namespace hearth
