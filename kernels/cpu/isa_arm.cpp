// Detection of AArch64's instruction sets: the kernel tells a process in its auxiliary vector what the processor
// has. Called at start, from any thread.
#include <sys/auxv.h>

#include "kernels/cpu/processor_runs.h"

namespace hearth {

bool processor_runs(Isa isa) {
  constexpr unsigned long kAsimdDp = 1ul << 20;  // HWCAP_ASIMDDP of asm/hwcap.h
  switch (isa) {
    case Isa::kScalar:
    case Isa::kNeon:
      return true;
    case Isa::kNeonDotprod:
      return (getauxval(AT_HWCAP) & kAsimdDp) != 0;
    case Isa::kAvx2:
    case Isa::kAvxVnni:
    case Isa::kAvx512Vnni:
      break;
  }
  return false;
}

}  // namespace hearth
