// One operation of a stream or a graph on the device. It is timed and guarded when it runs, and fails if a
// test has injected an error.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/cuda/ops/kernel_work.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::cudaemu {

struct Operation {
  WorkKind kind;
  size_t n_bytes = 0;            // for copies and fills
  const void* kernel = nullptr;  // for kernels
  std::function<void()> run;
  std::function<cuda::KernelWork()> work = {};  // a kernel's declared work
  bool pageable = false;                        // a copy from pageable memory to the device
};

/// Runs the operation, unless the device has failed before or is to fail now. `stream`: the stream that its
/// recorded interval names.
void execute(const Operation& operation, cudaStream_t stream);

}  // namespace hearth::cudaemu
