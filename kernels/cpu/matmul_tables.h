// The matmul tables of the single ISAs, each defined in its own folder; matmul_kernels() picks among them.
#pragma once

#include "kernels/cpu/matmul_kernels.h"

namespace hearth {

extern const MatmulKernels kScalarMatmul;
extern const MatmulKernels kAvx2Matmul;
extern const MatmulKernels kAvx512Matmul;

}  // namespace hearth
