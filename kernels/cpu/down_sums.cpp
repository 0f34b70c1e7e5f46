// Picks the table of an ISA. See down_sums.h.
#include "kernels/cpu/down_sums.h"

namespace hearth {

const DownSumsKernels& down_sums_kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni:
      return kDownSumsAvx512;
    case Isa::kAvx2:
      return kDownSumsAvx2;
    case Isa::kScalar:
      break;
  }
  return kDownSumsScalar;
}

}  // namespace hearth
