// What a kernel reads, writes and computes, declared where it is launched.
//
// A device ignores it, but for a benchmark that compares kernels' times with it (kernels/cuda/bench/kernel_bench.h). A simulated
// device (kernels/cuda/simulated_device.h) does not run kernels: it calls the declaration when the kernel's turn comes, and
// takes from it how long the kernel lasts,
//   launch + max(bytes / VRAM's rate, host_reads / PCIe's, multiply_adds / tensor cores' rate, instructions / ALUs' rate)
// A declaration counts what the kernel needs, from the sizes of the call and, where only the device knows how long a list
// is, from the list. tests/kernels/cuda/kernel_work_test.cpp compares declared bytes with the memory that kernels touch.
#pragma once

#include <cstdint>

namespace hearth::cuda {

struct KernelWork {
  double bytes = 0;          // of the device's memory, read and written; what a cache serves counts once
  double host_reads = 0;     // bytes of the host's memory that are read over PCIe
  double host_writes = 0;    // and written
  double multiply_adds = 0;  // weights times activations of two bytes, on the tensor cores
  double instructions =
      0;  // of all threads together, except those multiply-adds; only where they may be the bound
  /// What the kernel finds decides which work follows (which neurons, where), so a simulated device runs it too.
  bool decides = false;
};

/// Bytes of n floats, or other numbers of four bytes.
constexpr double floats(int64_t n) { return 4.0 * static_cast<double>(n); }
/// Bytes of the bits of n_neurons neurons, for each of n_tokens tokens.
constexpr double bit_sets(int64_t n_tokens, int64_t n_neurons) {
  return 8.0 * static_cast<double>(n_tokens) * static_cast<double>((n_neurons + 63) / 64);
}

}  // namespace hearth::cuda
