// Detects x86-64's instruction sets: cpuid reports what the processor has, and xgetbv whether the operating
// system saves the wide registers. Called at start, from any thread.
#include <cpuid.h>

#include <cstdint>

#include "kernels/cpu/isa/processor_runs.h"

namespace hearth {
namespace {

struct CpuidLeaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// The result of CPUID, or zeros if the processor does not have this leaf.
CpuidLeaf cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf regs;
  __get_cpuid_count(leaf, subleaf, &regs.eax, &regs.ebx, &regs.ecx, &regs.edx);
  return regs;
}

constexpr bool has_all(uint32_t reg, uint32_t bits) { return (reg & bits) == bits; }
constexpr uint32_t bit(int n) { return uint32_t{1} << n; }

// The register states that the operating system saves on a context switch (XCR0). An operating system or
// hypervisor may leave AVX-512 switched off although the processor has it.
constexpr uint32_t kStateYmm = bit(1) | bit(2);
constexpr uint32_t kStateZmm = kStateYmm | bit(5) | bit(6) | bit(7);

}  // namespace

uint32_t saved_register_states() {
  constexpr uint32_t kOsxsave = bit(27);
  if (!has_all(cpuid(1, 0).ecx, kOsxsave)) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool processor_runs(Isa isa) {
  // Bit numbers: Intel SDM volume 2A, CPUID leaves 1 and 7.
  constexpr uint32_t kLeaf1Ecx = bit(12) | bit(28) | bit(29);                  // FMA, AVX, F16C
  constexpr uint32_t kLeaf7EbxAvx2 = bit(5);                                   // AVX2
  constexpr uint32_t kLeaf7EbxAvx512 = bit(16) | bit(17) | bit(30) | bit(31);  // F, DQ, BW, VL
  constexpr uint32_t kLeaf7EcxVnni = bit(11);                                  // AVX512_VNNI
  const CpuidLeaf leaf7 = cpuid(7, 0);
  const bool avx2 = has_all(cpuid(1, 0).ecx, kLeaf1Ecx) && has_all(leaf7.ebx, kLeaf7EbxAvx2) &&
                    has_all(saved_register_states(), kStateYmm);
  const bool avx512 = avx2 && has_all(leaf7.ebx, kLeaf7EbxAvx512) && has_all(leaf7.ecx, kLeaf7EcxVnni) &&
                      has_all(saved_register_states(), kStateZmm);
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvxVnni:
      return avx2 && processor_has_avx_vnni();
    case Isa::kAvx512Vnni:
      return avx512;
    case Isa::kAmx:
      return avx512 && process_may_use_amx();
    case Isa::kNeon:
    case Isa::kNeonDotprod:
    case Isa::kNeonI8mm:
      break;
  }
  return false;
}

}  // namespace hearth
