// Picks the table of an ISA. See down_kernels.h.
#include "kernels/cpu/down_kernels.h"

namespace hearth {

const DownKernels& down_kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni:
      return kDownKernelsAvx512;
    case Isa::kAvx2:
      return kDownKernelsAvx2;
    case Isa::kScalar:
      break;
  }
  return kDownKernelsScalar;
}

}  // namespace hearth
