// DownKernels for NEON. Only the table may have external linkage.
#include "kernels/cpu/neon/strips_neon.h"
#include "kernels/cpu/simd/down_table.h"

namespace hearth {

const DownKernels kDownKernelsNeon = down_table<NeonDown>();

}  // namespace hearth
