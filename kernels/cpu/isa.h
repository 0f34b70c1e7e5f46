// Which instruction set the CPU kernels use: found once by cpuid, or forced by --isa.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace hearth {

enum class Isa {
  kScalar,
  kAvx2,        // AVX2, FMA and F16C
  kAvx512Vnni,  // AVX-512 F, BW, DQ, VL and VNNI
};

/// Name as --isa takes it: "scalar", "avx2", "avx512-vnni".
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

/// The instruction sets that this processor and operating system can run, best first; kScalar is always last.
std::vector<Isa> supported_isas();

}  // namespace hearth
