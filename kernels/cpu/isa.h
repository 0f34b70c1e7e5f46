// Which instruction set the CPU kernels use: found once by asking the processor, or forced by --isa.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Every build knows all of them; a program has the loops of its own kind of processor and of kScalar.
enum class Isa {
  kScalar,
  kAvx2,        // x86-64: AVX2, FMA and F16C
  kAvxVnni,     // x86-64: kAvx2 and AVX-VNNI, for matrix products; all else is as with kAvx2
  kAvx512Vnni,  // x86-64: AVX-512 F, BW, DQ, VL and VNNI
  kAmx,  // x86-64: kAvx512Vnni and AMX's tiles, for quantised weights times many tokens; all else is as with it
  kNeon,         // AArch64: Advanced SIMD, which every such processor has
  kNeonDotprod,  // AArch64: kNeon and the dot products of ARMv8.2, for matrix products; all else is as with kNeon
  kNeonI8mm,  // AArch64: kNeonDotprod and the matrix products of ARMv8.6, for several tokens; all else is as with kNeonDotprod
};

/// Every instruction set, best first within a kind of processor; kScalar is last. kAmx has never been measured, so it stands
/// behind kAvx512Vnni, which its processors have too, and is used only where it is named.
inline constexpr Isa kAllIsas[] = {Isa::kAvx512Vnni, Isa::kAmx,         Isa::kAvxVnni, Isa::kAvx2,
                                   Isa::kNeonI8mm,   Isa::kNeonDotprod, Isa::kNeon,    Isa::kScalar};

/// Whether this program has the instruction set's loops, though this processor may not run them.
bool is_built(Isa isa);

/// Name as --isa takes it: "scalar", "avx2", "avx-vnni", "avx512-vnni", "amx", "neon", "neon-dotprod", "neon-i8mm".
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

/// The instruction sets that this processor and operating system can run, best first; kScalar is always last.
std::vector<Isa> supported_isas();

/// Why this program does not run the instruction set here, and which it can, as half a sentence. REQUIRES: it is not one
/// of supported_isas().
std::string isa_refusal(Isa isa);

}  // namespace hearth
