// Names the instruction sets, and lists those that this processor runs. isa_x86.cpp and isa_arm.cpp query the
// processor.
#include "kernels/cpu/isa/isa.h"

#include <array>
#include <iterator>

#include "kernels/cpu/isa/processor_runs.h"

namespace hearth {
namespace {

struct IsaName {
  Isa isa;
  std::string_view name;
};

constexpr std::array<IsaName, std::size(kAllIsas)> kNames = {{
    {Isa::kAvx512Vnni, "avx512-vnni"},
    {Isa::kAmx, "amx"},
    {Isa::kAvxVnni, "avx-vnni"},
    {Isa::kAvx2, "avx2"},
    {Isa::kNeonI8mm, "neon-i8mm"},
    {Isa::kNeonDotprod, "neon-dotprod"},
    {Isa::kNeon, "neon"},
    {Isa::kScalar, "scalar"},
}};

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
  for (const Isa isa : kAllIsas) {
    if (is_built(isa) && processor_runs(isa)) supported.push_back(isa);
  }
  return supported;
}

std::string isa_refusal(Isa isa) {
  std::string names;
  for (const Isa possible : supported_isas()) {
    names.append(names.empty() ? "" : ", ").append(isa_name(possible));
  }
  if (is_built(isa)) return "this processor does not have it; it can run " + names;
  return "this program was built without it; it can run " + names +
         " (with -DHEARTH_ISAS=all, cmake builds every instruction set of a kind of processor)";
}

}  // namespace hearth
