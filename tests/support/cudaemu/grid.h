// Runs a launch: all its blocks, on the calling OS thread and config().block_workers - 1 others.
#pragma once

#include <functional>

#include "tests/support/cudaemu/launch.h"

namespace hearth::cudaemu {

/// Returns when all blocks have ended. Called by the streams' threads.
void run_grid(const Launch& launch, const std::function<void()>& thread);

}  // namespace hearth::cudaemu
