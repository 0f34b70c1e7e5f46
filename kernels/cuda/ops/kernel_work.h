// The declared work of a kernel: the bytes that it reads and writes, and its arithmetic. Every launch
// declares it.
//
// A real device ignores the declaration, except in the benchmark that compares kernel times with it
// (kernels/cuda/bench/kernel_bench.h). A simulated device (kernels/cuda/ops/simulated_device.h) does not run
// kernels. Instead, it evaluates the declaration when the kernel would begin, and computes the kernel's
// duration:
//   start + max(bytes / VRAM rate, host_reads / PCIe rate, multiply_adds / tensor core rate,
//               instructions / ALU rate)
// The start time, and the fraction of these rates that kernels of each class reach, depend on the machine
// (engine/placement/kernel_costs.h). A declaration is computed from the sizes in the call, and from the
// length of a list if only the device has it. tests/kernels/cuda/kernel_work_test.cpp compares declared bytes
// with the memory that kernels touch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hearth::cuda {

/// Classes of kernels. The kernels of a class have similar overhead in addition to their bytes and
/// arithmetic.
enum class KernelClass : uint8_t {
  kSimple,  // element-wise work: adding, copying, rotating, quantizing, storing keys and values
  kNorm,    // row norms, whose sums are chains of dependent additions
  // Products with all rows of a matrix, or only with listed rows. Slow kernels reach a lower bandwidth,
  // because they need more registers or load fewer bytes at a time.
  kProduct,
  kSlowProduct,
  kListedProduct,
  kSlowListedProduct,
  kTiles,           // products with many tokens, on the tensor cores
  kSlowTiles,       // like kTiles, for types whose kernel runs only one thread block per multiprocessor
  kDownRows,        // down-projection rows of neurons
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
  double start_s = 0;      // duration of a kernel without work, from the end of the kernel that it waits for
  double bytes_per_s = 0;  // of the device's memory
  double multiply_adds_per_s = 0;  // on the tensor cores
  double instructions_per_s = 0;   // of all threads together
};
using KernelSpeeds = std::array<KernelSpeed, kKernelClasses>;

struct KernelWork {
  KernelClass kind = KernelClass::kSimple;
  // Bytes of device memory read and written. A byte that is read again from a cache counts once.
  double bytes = 0;
  double host_reads = 0;     // bytes of host memory read over PCIe
  double host_writes = 0;    // bytes of host memory written over PCIe
  double multiply_adds = 0;  // multiply-adds of weights with two-byte activations, on the tensor cores
  // Instructions of all threads together, except for multiply_adds. Left 0 if bytes or multiply_adds always
  // take longer.
  double instructions = 0;
  /// Whether the kernel's results determine the work that follows (for example, which neurons are computed,
  /// and where). A simulated device also runs such kernels.
  bool decides = false;
};

/// Bytes of n floats or other 4-byte numbers.
constexpr double floats(int64_t n) { return 4.0 * static_cast<double>(n); }
/// Bytes of a bit set of n_neurons neurons for each of n_tokens tokens.
constexpr double bit_sets(int64_t n_tokens, int64_t n_neurons) {
  return 8.0 * static_cast<double>(n_tokens) * static_cast<double>((n_neurons + 63) / 64);
}

}  // namespace hearth::cuda
