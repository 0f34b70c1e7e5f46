// CUDA on the CPU, included by kernels/cuda/runtime/gpu.h: the language, the intrinsics, the launch.
//
// There is one fiber per CUDA thread and one OS thread per stream. NVIDIA's headers are used unchanged, so
// calls are checked against the real API. control.h has the settings and counters for tests.
#pragma once

#include "tests/support/cudaemu/atomic_builtins.h"
#include "tests/support/cudaemu/builtins.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/cudaemu/launch.h"
#include "tests/support/cudaemu/math_builtins.h"
#include "tests/support/cudaemu/ptx.h"
#include "tests/support/cudaemu/warp_builtins.h"

#define GPU_DYN_SHARED(T, name) T* name = static_cast<T*>(::hearth::cudaemu::dynamic_shared())
#define GPU_UNROLL
