// See the header.
#include "engine/placement/kernel_costs.h"

#include <algorithm>
#include <array>

namespace hearth {
namespace {

using cuda::KernelClass;

// Lanes of a multiprocessor, equal for all GPUs that the kernels run on.
constexpr double kLanes = 128;
/// A rate of instructions that is no bound, for profiles that have none.
constexpr double kNoBound = 1e18;

// "Measured": on an NVIDIA H200 (132 multiprocessors, 4177 GB/s), tests/data/measured/h200, in a recorded
// graph of one kernel repeated with other operands than a cache holds. Where two sizes were measured, 7B Q4_0
// and 70B Q4_K, start_s and the rate are those of the line through both.
constexpr std::array<KernelCost, cuda::kKernelClasses> kCosts = {{
    // Simple. Measured: 0.9 to 1.4 us.
    {.start_s = 1.2e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Norm. Measured: 4.7 us for 4096 columns, 7.7 us for 8192.
    {.start_s = 4.7e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Product. Measured: 11.1 us for 25 MB, 44.9 us for 132 MB.
    {.start_s = 3.1e-6, .vram_share = 0.95, .multiprocessor_bytes = 12},
    // Slow product. Measured: 19.9 us for 37 MB of Q6_K, 51.9 us for 90 MB of F16. 153 to 166 registers, 3
    // blocks, loads of two bytes.
    {.start_s = 3.1e-6, .vram_share = 0.85, .multiprocessor_bytes = 8.5, .instructions_share = 0.23},
    // Listed product. Measured: 4.3 us for 3.1 MB, 8.3 us for 16 MB.
    {.start_s = 3.3e-6, .vram_share = 0.95, .multiprocessor_bytes = 12},
    // Slow listed product. Measured: 5.9 us for 4.5 MB of Q6_K.
    {.start_s = 3.3e-6, .vram_share = 0.85, .multiprocessor_bytes = 8.5, .instructions_share = 0.23},
    // Tiles. Measured: 91 % of the profile's rate for Q4_0, 73 % for Q4_K, whose mins take more instructions.
    {.start_s = 3e-6, .vram_share = 0.95, .multiprocessor_bytes = 0, .multiply_adds_share = 0.9},
    // Slow tiles. Measured: Q6_K at half of Q4_0's rate. 201 registers, one block of 8 warps on a
    // multiprocessor.
    {.start_s = 3e-6, .vram_share = 0.95, .multiprocessor_bytes = 0, .multiply_adds_share = 0.45},
    // Down rows. Measured: 7.5 us for 3.1 MB of Q4_0 and for 11 MB of F16, some 21 us for 25 MB in a 7B
    // model; a prompt's instructions at 24 % of their rate.
    {.start_s = 6e-6, .vram_share = 0.85, .multiprocessor_bytes = 7, .instructions_share = 0.24},
    // List. Measured: 1.4 us to select, 1.9 to list, 4 to keep what passed, 2.2 for values.
    {.start_s = 2.1e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Sums. Measured: 6.9 us for 4096 columns, 10.2 us for 8192, which are loaded over PCIe.
    {.start_s = 7e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Hand-over. Measured: 3.3 us, of which 0.3 are the bytes over PCIe.
    {.start_s = 3e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Attention. Measured, 2048 keys: 19.3 us with 32 key-value heads, 26.5 us with 8 for 64 heads, whose
    // instructions are at a tenth of their rate.
    {.start_s = 5e-6, .vram_share = 0.7, .multiprocessor_bytes = 9, .instructions_share = 0.12},
    // Attention tiles. Measured, 2048 keys: 17 and 24 % of the rate of instructions.
    {.start_s = 5e-6, .vram_share = 0.95, .multiprocessor_bytes = 0, .instructions_share = 0.2},
    // Gather. Measured: 13.7 us for 221 KB, 20.1 us for 443 KB. gather_share() has the link's share.
    {.start_s = 7.4e-6, .vram_share = 1, .multiprocessor_bytes = 0},
}};

double start_s(const GpuProfile& gpu, KernelClass kind) {
  return gpu.starts * std::max(gpu.launch_s, kernel_cost(kind).start_s);
}

}  // namespace

const KernelCost& kernel_cost(KernelClass kind) { return kCosts[static_cast<size_t>(kind)]; }

cuda::KernelSpeeds kernel_speeds(const GpuProfile& gpu) {
  cuda::KernelSpeeds speeds;
  for (size_t i = 0; i < speeds.size(); ++i) {
    const KernelCost& cost = kCosts[i];
    double bytes_per_s = cost.vram_share * gpu.vram_bytes_per_s;
    // Clocks of all multiprocessors together: instructions of all lanes over lanes.
    if (cost.multiprocessor_bytes > 0 && gpu.instructions_per_s > 0)
      bytes_per_s = std::min(bytes_per_s, cost.multiprocessor_bytes * gpu.instructions_per_s / kLanes);
    speeds[i] = {.start_s = start_s(gpu, static_cast<KernelClass>(i)),
                 .bytes_per_s = bytes_per_s,
                 .multiply_adds_per_s = cost.multiply_adds_share * gpu.multiply_adds_per_s,
                 .instructions_per_s = gpu.instructions_per_s > 0
                                           ? cost.instructions_share * gpu.instructions_per_s
                                           : kNoBound};
  }
  return speeds;
}

double gather_share(const GpuProfile& gpu) {
  // A rate on PCIe 4, and what was measured on PCIe 5, where the kernel's reads in flight are the limit.
  constexpr double kShare = 0.88, kMostBytesPerS = 35e9;
  return std::min(kShare, kMostBytesPerS / gpu.to_device_pinned_bytes_per_s);
}

double first_kernel_s(const GpuProfile& gpu) {
  // A lower limit: no GPU starts a kernel sooner, even if a profile's round trip suggests it.
  constexpr double kLeast = 1e-6;
  return std::max(gpu.round_trip_s - kCallCosts.graph_of_two - start_s(gpu, KernelClass::kSimple) -
                      start_s(gpu, KernelClass::kHandOver) - kCallCosts.visible,
                  gpu.starts * kLeast);
}

double hand_over_s(const GpuProfile& gpu) {
  return gpu.starts * (kCallCosts.visible + kCallCosts.graph) + first_kernel_s(gpu);
}

double step_s(const GpuProfile& gpu) {
  return gpu.starts * (kCallCosts.graph + kCallCosts.wait + kCallCosts.step) + first_kernel_s(gpu);
}

}  // namespace hearth
