// Replaces kernels/cpu/amx/has_amx.cpp in programs that run AMX's loops over a stand-in for its tiles.
// isa_x86.cpp checks for AVX-512, which the loops need too.
#include "kernels/cpu/isa/processor_runs.h"

namespace hearth {

bool process_may_use_amx() { return true; }

}  // namespace hearth
