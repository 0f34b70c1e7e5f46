// Checks whether an instruction set can be used. Each processor family has its own implementation
// (isa_x86.cpp, isa_arm.cpp). Called by supported_isas(), from any thread.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa/isa.h"

namespace hearth {

/// Whether this processor and operating system can run an instruction set. REQUIRES: is_built(isa).
bool processor_runs(Isa isa);

/// Whether the processor has AVX-VNNI. The function is in a file of its own (avxvnni/has_avxvnni.cpp),
/// because a test replaces it.
bool processor_has_avx_vnni();

/// Whether the processor has AMX tiles and the operating system lets this process use them. The call requests
/// this permission. The function is in amx/has_amx.cpp.
bool process_may_use_amx();

/// x86-64: the register states that the operating system saves on a context switch (the low half of XCR0).
uint32_t saved_register_states();

}  // namespace hearth
