// VectorKernels for plain C++. lanes_scalar.h explains what is special about this ISA.
#include "kernels/cpu/scalar/lanes_scalar.h"

#include "kernels/cpu/lanes/vector_table_inl.h"

namespace hearth {

const VectorKernels kVectorKernelsScalar = kVectorKernels;

}  // namespace hearth
