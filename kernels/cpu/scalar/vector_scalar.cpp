// VectorKernels for plain C++. lanes_scalar.h explains what is special about this ISA.
#include "kernels/cpu/scalar/lanes_scalar.h"

#include "kernels/cpu/attention_inl.h"
#include "kernels/cpu/rows_inl.h"
#include "kernels/cpu/vector_kernels.h"

namespace hearth {

const VectorKernels kVectorKernelsScalar = {
    rms_norm,
    layer_norm,
    gated_activation,
    softmax,
    sigmoid,
    add_weighted_rows,
    soft_cap,
    rotate,
    to_half,
    to_q8,
    {attend<KvType::kF16>, attend<KvType::kQ8>},
    {attend_partly_seen<KvType::kF16>, attend_partly_seen<KvType::kQ8>},
    merge,
    divide};

}  // namespace hearth
