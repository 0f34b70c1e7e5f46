// VectorKernels for NEON. lanes_neon.h explains what is special about this ISA.
#include "kernels/cpu/neon/lanes_neon.h"

#include "kernels/cpu/lanes/vector_table_inl.h"

namespace hearth {

const VectorKernels kVectorKernelsNeon = kVectorKernels;

}  // namespace hearth
