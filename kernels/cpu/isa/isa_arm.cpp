// Detects AArch64's instruction sets from the auxiliary vector, in which Linux reports the processor's
// features to a process. Called at start, from any thread.
#include <sys/auxv.h>

#include "kernels/cpu/isa/processor_runs.h"

namespace hearth {

bool processor_runs(Isa isa) {
  // Bits from asm/hwcap.h: HWCAP_ASIMDDP in AT_HWCAP, and HWCAP2_I8MM in AT_HWCAP2.
  constexpr unsigned long kAsimdDp = 1ul << 20, kI8mm = 1ul << 13;
  const bool dotprod = (getauxval(AT_HWCAP) & kAsimdDp) != 0;
  switch (isa) {
    case Isa::kScalar:
    case Isa::kNeon:
      return true;
    case Isa::kNeonDotprod:
      return dotprod;
    case Isa::kNeonI8mm:
      return dotprod && (getauxval(AT_HWCAP2) & kI8mm) != 0;
    case Isa::kAvx2:
    case Isa::kAvxVnni:
    case Isa::kAvx512Vnni:
    case Isa::kAmx:
      break;
  }
  return false;
}

}  // namespace hearth
