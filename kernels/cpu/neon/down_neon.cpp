// DownKernels for NEON. Nothing in this file may have external linkage but the table.
#include "kernels/cpu/neon/strips_neon.h"
#include "kernels/cpu/simd/down_table.h"

namespace hearth {

const DownKernels kDownKernelsNeon = down_table<NeonDown>();

}  // namespace hearth
