// Detects AMX tiles and byte products, and requests permission to use them. Linux grants a thread the 8 KB of
// its tiles only if the process has requested them.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/isa/processor_runs.h"

namespace hearth {
namespace {

/// Bits of CPUID leaf 7, and the palette of leaf 0x1d (Intel SDM volume 2A, CPUID).
bool processor_has_tiles() {
  constexpr unsigned kTileAndInt8 = (1u << 24) | (1u << 25);
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kTileAndInt8) != kTileAndInt8)
    return false;
  // Palette 1: EBX has the bytes of a row and the number of tiles, ECX the number of rows.
  if (__get_cpuid_count(0x1d, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (ebx & 0xffff) >= 64 && ebx >> 16 >= 8 && (ecx & 0xffff) >= 16;
}

/// Requests permission for all threads of the process; repeated requests are granted again. Linux refuses if
/// it does not support AMX (before Linux 5.16), or if a thread's alternate signal stack is too small for the
/// tiles.
bool linux_grants_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  constexpr long kTileData = 18;               // the state's bit in XCR0
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool process_may_use_amx() {
  constexpr uint32_t kStateTiles = (1u << 17) | (1u << 18);
  return processor_has_tiles() && (saved_register_states() & kStateTiles) == kStateTiles &&
         linux_grants_tiles();
}

}  // namespace hearth
