// Detection of instruction sets by cpuid, and whether the operating system saves the wide registers (xgetbv).
// Called at start, from any thread.
#include "kernels/cpu/isa.h"

#include <cpuid.h>

#include <array>
#include <cstdint>

namespace hearth {
namespace {

struct IsaName {
  Isa isa;
  std::string_view name;
};

constexpr std::array<IsaName, 3> kNames = {{
    {Isa::kAvx512Vnni, "avx512-vnni"},
    {Isa::kAvx2, "avx2"},
    {Isa::kScalar, "scalar"},
}};

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

// Register states that the operating system saves on a context switch (XCR0). The kernel or hypervisor may
// keep the AVX-512 of a processor switched off.
constexpr uint32_t kStateYmm = bit(1) | bit(2);
constexpr uint32_t kStateZmm = kStateYmm | bit(5) | bit(6) | bit(7);

uint32_t saved_states() {
  constexpr uint32_t kOsxsave = bit(27);
  if (!has_all(cpuid(1, 0).ecx, kOsxsave)) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool runs(Isa isa) {
  // Bit numbers: Intel SDM volume 2A, CPUID leaves 1 and 7.
  constexpr uint32_t kLeaf1Ecx = bit(12) | bit(28) | bit(29);                  // FMA, AVX, F16C
  constexpr uint32_t kLeaf7EbxAvx2 = bit(5);                                   // AVX2
  constexpr uint32_t kLeaf7EbxAvx512 = bit(16) | bit(17) | bit(30) | bit(31);  // F, DQ, BW, VL
  constexpr uint32_t kLeaf7EcxVnni = bit(11);                                  // AVX512_VNNI
  const CpuidLeaf leaf7 = cpuid(7, 0);
  const bool avx2 = has_all(cpuid(1, 0).ecx, kLeaf1Ecx) && has_all(leaf7.ebx, kLeaf7EbxAvx2) &&
                    has_all(saved_states(), kStateYmm);
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512Vnni:
      return avx2 && has_all(leaf7.ebx, kLeaf7EbxAvx512) && has_all(leaf7.ecx, kLeaf7EcxVnni) &&
             has_all(saved_states(), kStateZmm);
  }
  return false;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  for (const IsaName& entry : kNames) {
    if (entry.isa == isa) return entry.name;
  }
  return "unknown";
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const IsaName& entry : kNames) {
    if (entry.name == name) return entry.isa;
  }
  return std::nullopt;
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> supported;
  for (const IsaName& entry : kNames) {
    if (runs(entry.isa)) supported.push_back(entry.isa);
  }
  return supported;
}

}  // namespace hearth
