// What a kernel reads, writes and computes, declared where it is launched.
//
// A device ignores it, but for a benchmark that compares kernels' times with it (kernels/cuda/bench/kernel_bench.h). A simulated
// device (kernels/cuda/ops/simulated_device.h) does not run kernels: it calls the declaration when the kernel's turn comes, and
// takes from it how long the kernel lasts,
//   start + max(bytes / VRAM's rate, host_reads / PCIe's, multiply_adds / tensor cores' rate, instructions / ALUs' rate)
// where start and how much of these rates kernels of its class reach are the machine's (profiler/machine/kernel_costs.h).
// A declaration counts what the kernel needs, from the sizes of the call and, where only the device knows how long a list
// is, from the list. tests/kernels/cuda/kernel_work_test.cpp compares declared bytes with the memory that kernels touch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hearth::cuda {

/// Kernels that are alike in what they take besides their bytes and their arithmetic.
enum class KernelClass : uint8_t {
  kSimple,  // numbers one by one: adding, copying, rotating, quantising, keys and values put in their places
  kNorm,    // of rows: sums whose terms wait for each other
  // Products with all rows of a matrix, or with listed ones. Slow: of types whose kernels need so many registers, or load so
  // few bytes at a time, that they read slower.
  kProduct,
  kSlowProduct,
  kListedProduct,
  kSlowListedProduct,
  kTiles,           // products with many tokens, on the tensor cores
  kSlowTiles,       // of types whose kernel has a multiprocessor to itself
  kDownRows,        // rows of a down projection, by neuron, added to integer sums
  kList,            // neurons selected, listed, parted, noted
  kSums,            // integer sums rounded into the residual stream
  kHandOver,        // what the host gets, and the word that tells it
  kAttention,       // of single tokens
  kAttentionTiles,  // of a prompt
  kGather,          // brings rows from the host's memory
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

/// What kernels of a class take on a GPU, besides the instructions.
struct KernelSpeed {
  double start_s =
      0;  // from the end of the kernel before, which it depends on, to its own end if it has nothing to do
  double bytes_per_s = 0;          // of the device's memory
  double multiply_adds_per_s = 0;  // on the tensor cores
};
using KernelSpeeds = std::array<KernelSpeed, kKernelClasses>;

struct KernelWork {
  KernelClass kind = KernelClass::kSimple;
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
