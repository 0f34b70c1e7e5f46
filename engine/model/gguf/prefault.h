// Brings mapped pages into memory ahead of use, by several threads, with progress; and lets them go.
//
// Called while a model is loaded.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace hearth::gguf {

/// Touches every page of `regions`. `progress` (may be empty) is called on the calling thread with the share
/// done, 0 to 1, rising, the last time with 1. If it throws, the work stops and the exception goes on to the
/// caller. A region whose file is cut meanwhile raises SIGBUS, as any access to it would.
void prefault(const std::vector<std::span<const std::byte>>& regions,
              const std::function<void(double)>& progress);

/// Gives the whole pages of a mapped region back; they are read from the file again if they are ever used.
/// For weights that were copied: else they would count twice in the memory of the process.
void release(std::span<const std::byte> region);

}  // namespace hearth::gguf
