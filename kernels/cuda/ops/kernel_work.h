// A kernel's declared work: the bytes it reads and writes and its arithmetic, stated where it is launched.
//
// A real device ignores the declaration, except in a benchmark that compares kernel times with it
// (kernels/cuda/bench/kernel_bench.h). A simulated device (kernels/cuda/ops/simulated_device.h) does not run
// kernels. It evaluates the declaration when the kernel's turn comes, and computes from it how long the
// kernel lasts:
//   start + max(bytes / VRAM rate, host_reads / PCIe rate, multiply_adds / tensor core rate,
//               instructions / ALU rate)
// The start time, and the part of these rates that kernels of each class reach, belong to the machine
// (engine/placement/kernel_costs.h). A declaration counts what the kernel needs: from the sizes of the call,
// and from a list where only the device knows the list's length. tests/kernels/cuda/kernel_work_test.cpp
// compares declared bytes with the memory that kernels touch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hearth::cuda {

/// Groups of kernels with similar overhead beyond their bytes and arithmetic.
enum class KernelClass : uint8_t {
  kSimple,  // element-wise work: adding, copying, rotating, quantizing, storing keys and values
  kNorm,    // row norms, whose sums are chains of dependent additions
  // Products with all rows of a matrix, or with listed rows. Slow kernels need so many registers, or load so
  // few bytes at a time, that they read more slowly.
  kProduct,
  kSlowProduct,
  kListedProduct,
  kSlowListedProduct,
  kTiles,           // products with many tokens, on the tensor cores
  kSlowTiles,       // for types whose thread block occupies a whole multiprocessor
  kDownRows,        // down-projection rows of neurons, added to integer sums
  kList,            // selects, lists, splits or notes neurons
  kSums,            // rounds integer sums and adds them to the residual stream
  kHandOver,        // writes data for the host, and the word that signals it
  kAttention,       // of single tokens
  kAttentionTiles,  // of a prompt
  kGather,          // copies rows from host memory
};
inline constexpr size_t kKernelClasses = 15;
/// In the order of KernelClass; for reports.
inline constexpr std::array<std::string_view, kKernelClasses> kKernelClassNames = {
    "simple",         "norm",
    "product",        "slow product",
    "listed product", "slow listed product",
    "tiles",          "slow tiles",
    "down rows",      "list",
    "sums",           "hand-over",
    "attention",      "attention tiles",
    "gather"};

/// The speed of kernels of a class on a GPU.
struct KernelSpeed {
  double start_s = 0;      // from the end of the kernel that it depends on to its own end, if it has no work
  double bytes_per_s = 0;  // of the device's memory
  double multiply_adds_per_s = 0;  // on the tensor cores
  double instructions_per_s = 0;   // of all threads together
};
using KernelSpeeds = std::array<KernelSpeed, kKernelClasses>;

struct KernelWork {
  KernelClass kind = KernelClass::kSimple;
  double bytes = 0;          // bytes of device memory read and written; a byte that a cache serves again
                             // counts once
  double host_reads = 0;     // bytes of host memory read over PCIe
  double host_writes = 0;    // bytes of host memory written over PCIe
  double multiply_adds = 0;  // multiply-adds of weights with two-byte activations, on the tensor cores
  double instructions =
      0;  // of all threads together, without multiply_adds; set only where they may be the limit
  /// The kernel's results decide which work follows (which neurons, where), so a simulated device runs the
  /// kernel too.
  bool decides = false;
};

/// Bytes of n floats or other 4-byte numbers.
constexpr double floats(int64_t n) { return 4.0 * static_cast<double>(n); }
/// Bytes of a bit set of n_neurons neurons for each of n_tokens tokens.
constexpr double bit_sets(int64_t n_tokens, int64_t n_neurons) {
  return 8.0 * static_cast<double>(n_tokens) * static_cast<double>((n_neurons + 63) / 64);
}

}  // namespace hearth::cuda
