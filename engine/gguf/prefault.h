// Brings mapped pages into memory ahead of use, by several threads, with progress.
//
// Called once by ModelFile::prefault while a model is loaded.
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

}  // namespace hearth::gguf
