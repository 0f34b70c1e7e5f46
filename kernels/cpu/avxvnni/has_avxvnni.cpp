// Whether the processor has AVX-VNNI: dot products of bytes in 256-bit registers, encoded like AVX2's
// instructions.
#include <cpuid.h>

#include "kernels/cpu/isa/processor_runs.h"

namespace hearth {

bool processor_has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  // Subleaf 1 of leaf 7 exists if EAX of subleaf 0 is at least 1. Bit 4 of EAX of subleaf 1 means AVX-VNNI
  // (Intel SDM volume 2A, CPUID).
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || eax < 1) return false;
  __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx);
  return (eax & (1u << 4)) != 0;
}

}  // namespace hearth
