// One thing a stream or a graph does on the device, and the doing of it: timed, guarded, and failing where a
// test wants it to.
#pragma once

#include <cstddef>
#include <functional>

#include "tests/support/cudaemu/control.h"

namespace hearth::cudaemu {

struct Operation {
  WorkKind kind;
  size_t n_bytes = 0;            // of copies and fills
  const void* kernel = nullptr;  // of kernels
  std::function<void()> run;
};

/// Does it, unless the device has failed before, or is to fail now. `stream`: in which, for its interval.
void execute(const Operation& operation, cudaStream_t stream);

}  // namespace hearth::cudaemu
