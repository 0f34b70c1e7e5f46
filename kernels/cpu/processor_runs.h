// The one question about an instruction set that each kind of processor answers in its own way: isa_x86.cpp,
// isa_arm.cpp. Called by supported_isas(), from any thread.
#pragma once

#include "kernels/cpu/isa.h"

namespace hearth {

/// Whether this processor and operating system can run an instruction set. REQUIRES: is_built(isa).
bool processor_runs(Isa isa);

/// Whether the processor has AVX-VNNI. In a file of its own (avxvnni/has_avxvnni.cpp), because a test replaces it.
bool processor_has_avx_vnni();

}  // namespace hearth
