// See the header.
#include "engine/placement/kernel_costs.h"

#include <algorithm>
#include <array>

namespace hearth {
namespace {

using cuda::KernelClass;

// Lanes of one multiprocessor. The number is equal for all GPUs that the kernels run on.
constexpr double kLanes = 128;
/// Instructions per second for profiles without this rate. The number is so high that it never limits a
/// kernel's speed.
constexpr double kNoBound = 1e18;

// "Measured" means: on an NVIDIA H200 (132 multiprocessors, 4177 GB/s; tests/data/measured/h200), in a
// recorded graph that repeats one kernel, with operands that are not in a cache. If two sizes were measured
// (7B Q4_0 and 70B Q4_K), start_s and the rate come from the line through both measurements.
constexpr std::array<KernelCost, cuda::kKernelClasses> kCosts = {{
    // Simple. Measured: 0.9 to 1.4 us.
    {.start_s = 1.2e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Norm. Measured: 4.7 us for 4096 columns, 7.7 us for 8192.
    {.start_s = 4.7e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Product. Measured: 11.1 us for 25 MB, 44.9 us for 132 MB.
    {.start_s = 3.1e-6, .vram_share = 0.95, .multiprocessor_bytes = 12},
    // Slow product. Measured: 19.9 us for 37 MB of Q6_K, 51.9 us for 90 MB of F16. The kernels take 153 to
    // 166 registers, so 3 thread blocks run on a multiprocessor, and they load two bytes at a time.
    {.start_s = 3.1e-6, .vram_share = 0.85, .multiprocessor_bytes = 8.5, .instructions_share = 0.23},
    // Listed product. Measured: 4.3 us for 3.1 MB, 8.3 us for 16 MB.
    {.start_s = 3.3e-6, .vram_share = 0.95, .multiprocessor_bytes = 12},
    // Slow listed product. Measured: 5.9 us for 4.5 MB of Q6_K.
    {.start_s = 3.3e-6, .vram_share = 0.85, .multiprocessor_bytes = 8.5, .instructions_share = 0.23},
    // Tiles. Measured: 91 % of the profile's rate for Q4_0, 73 % for Q4_K, because the mins of Q4_K take more
    // instructions.
    {.start_s = 3e-6, .vram_share = 0.95, .multiprocessor_bytes = 0, .multiply_adds_share = 0.9},
    // Types whose tiles are slow. Measured: Q6_K reaches half the rate of Q4_0. Its kernel takes 201
    // registers per thread, so only one thread block (8 warps) fits on a multiprocessor.
    {.start_s = 3e-6, .vram_share = 0.95, .multiprocessor_bytes = 0, .multiply_adds_share = 0.45},
    // Down rows. Measured: 7.5 us both for 3.1 MB of Q4_0 and for 11 MB of F16, and about 21 us for 25 MB in
    // a 7B model. For prompts, the kernel reaches 24 % of the rate of instructions.
    {.start_s = 6e-6, .vram_share = 0.85, .multiprocessor_bytes = 7, .instructions_share = 0.24},
    // List. Measured: 1.4 us to select neurons, 1.9 us to list them, 4 us to keep the neurons whose gates
    // passed, and 2.2 us for the activations.
    {.start_s = 2.1e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Sums. Measured: 6.9 us for 4096 columns, 10.2 us for 8192 columns; the columns are loaded over PCIe.
    {.start_s = 7e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Hand-over. Measured: 3.3 us, including 0.3 us for the bytes over PCIe.
    {.start_s = 3e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Attention. Measured with 2048 keys: 19.3 us with 32 key-value heads, and 26.5 us with 8 key-value heads
    // for 64 heads. The second case reaches a tenth of the rate of instructions.
    {.start_s = 5e-6, .vram_share = 0.7, .multiprocessor_bytes = 9, .instructions_share = 0.12},
    // Attention tiles. Measured with 2048 keys: 17 and 24 % of the rate of instructions.
    {.start_s = 5e-6, .vram_share = 0.95, .multiprocessor_bytes = 0, .instructions_share = 0.2},
    // Gather. Measured: 13.7 us for 221 KB, 20.1 us for 443 KB. gather_share() returns the share of the
    // link's rate that a gather reaches.
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
    // instructions_per_s counts the instructions of all lanes. Divided by kLanes, it gives the clocks per
    // second of all multiprocessors together.
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
  // kShare: the share of the link's rate on PCIe 4. kMostBytesPerS: the rate measured on PCIe 5, where the
  // number of reads that the kernel has in flight is the limit.
  constexpr double kShare = 0.88, kMostBytesPerS = 35e9;
  return std::min(kShare, kMostBytesPerS / gpu.to_device_pinned_bytes_per_s);
}

double first_kernel_s(const GpuProfile& gpu) {
  // Lower limit of the result. Every GPU needs at least this time, even if the round trip in the profile
  // implies less.
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
