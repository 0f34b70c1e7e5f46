// Counts for Stats; used by the emulator's own files.
#pragma once

#include "tests/support/cudaemu/control.h"

namespace hearth::cudaemu {

/// Use: count(&Stats::launches).
void count(uint64_t Stats::*what, uint64_t n = 1);

}  // namespace hearth::cudaemu
