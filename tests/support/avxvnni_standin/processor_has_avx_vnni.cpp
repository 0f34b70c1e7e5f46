// Replaces kernels/cpu/avxvnni/has_avxvnni.cpp in programs that run the loops for AVX-VNNI with AVX-512's
// instructions (tests/support/CMakeLists.txt).
#include "kernels/cpu/isa/processor_runs.h"

namespace hearth {

bool processor_has_avx_vnni() {
  return __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
}

}  // namespace hearth
