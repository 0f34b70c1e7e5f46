// VectorKernels for NEON. lanes_neon.h explains what is special about this ISA.
#include "kernels/cpu/neon/lanes_neon.h"

#include "kernels/cpu/attention_inl.h"
#include "kernels/cpu/rows_inl.h"
#include "kernels/cpu/vector_kernels.h"

namespace hearth {

const VectorKernels kVectorKernelsNeon = {rms_norm,
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
