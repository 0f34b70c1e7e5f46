// VectorKernels in plain C++. lanes_scalar.h has the lanes.
#include "kernels/cpu/scalar/lanes_scalar.h"

#include "kernels/cpu/lanes/vector_table_inl.h"

namespace hearth {

const VectorKernels kVectorKernelsScalar = kVectorKernels;

}  // namespace hearth
