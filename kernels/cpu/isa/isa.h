// The instruction set of the CPU kernels: detected once, or forced by --isa.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Every build has all these names, but contains loops only for its own processor family and for kScalar.
enum class Isa {
  kScalar,
  kAvx2,         // x86-64: AVX2, FMA and F16C
  kAvxVnni,      // x86-64: kAvx2, and AVX-VNNI for matrix products
  kAvx512Vnni,   // x86-64: AVX-512 F, BW, DQ, VL and VNNI
  kAmx,          // x86-64: kAvx512Vnni, and AMX tiles for quantized weights times many tokens
  kNeon,         // AArch64: Advanced SIMD, which every such processor has
  kNeonDotprod,  // AArch64: kNeon, and ARMv8.2 dot products for matrix products
  kNeonI8mm,     // AArch64: kNeonDotprod, and ARMv8.6 matrix products for several tokens
};

/// Every instruction set, best first within a processor family; kScalar is last. The speed of kAmx has never
/// been measured. So kAmx comes after kAvx512Vnni, which all processors with AMX also have, and is used only
/// if --isa names it.
inline constexpr Isa kAllIsas[] = {Isa::kAvx512Vnni, Isa::kAmx,         Isa::kAvxVnni, Isa::kAvx2,
                                   Isa::kNeonI8mm,   Isa::kNeonDotprod, Isa::kNeon,    Isa::kScalar};

/// Whether this program contains the instruction set's loops, whether or not this processor can run them.
bool is_built(Isa isa);

/// The name for --isa: "scalar", "avx2", "avx-vnni", "avx512-vnni", "amx", "neon", "neon-dotprod",
/// "neon-i8mm".
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

/// The instruction sets that this processor and operating system can run, best first; kScalar is always last.
std::vector<Isa> supported_isas();

/// Returns a phrase: the reason why this program cannot run the instruction set on this machine, and the
/// instruction sets that it can run. REQUIRES: isa is not one of supported_isas().
std::string isa_refusal(Isa isa);

}  // namespace hearth
