// VectorKernels for NEON. lanes_neon.h has the lanes of this ISA.
#include "kernels/cpu/neon/lanes_neon.h"

#include "kernels/cpu/lanes/vector_table_inl.h"

namespace hearth {

const VectorKernels kVectorKernelsNeon = kVectorKernels;

}  // namespace hearth
