// VectorKernels for plain C++. See lanes_scalar.h for what is particular to it.
#include "kernels/cpu/scalar/lanes_scalar.h"

#include "kernels/cpu/attention_inl.h"
#include "kernels/cpu/rows_inl.h"
#include "kernels/cpu/vector_kernels.h"

namespace hearth {

const VectorKernels kVectorKernelsScalar = {rms_norm, layer_norm, gated_activation, rotate, to_half, attend,
                                            merge,    divide};

}  // namespace hearth
