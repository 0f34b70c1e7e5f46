// DownKernels in plain C++, for processors without AVX2 and as the reference for the other ISAs. It is slow,
// because a fused multiply-add is a function call if the compiler cannot use the instruction.
#include "kernels/cpu/scalar/strips_scalar.h"
#include "kernels/cpu/simd/down_table.h"

namespace hearth {

const DownKernels kDownKernelsScalar = down_table<ScalarDown>();

}  // namespace hearth
