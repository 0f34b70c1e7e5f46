// Takes the place of kernels/cpu/amx/has_amx.cpp in programs that run AMX's loops over a stand-in for its tiles. What else
// the loops need, AVX-512, isa_x86.cpp asks for.
#include "kernels/cpu/processor_runs.h"

namespace hearth {

bool process_may_use_amx() { return true; }

}  // namespace hearth
