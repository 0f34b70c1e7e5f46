// See the header.
#include "engine/placement/kernel_costs.h"

#include <algorithm>
#include <array>

namespace hearth {
namespace {

using cuda::KernelClass;

// Lanes of a multiprocessor, equal for all GPUs that the kernels run on.
constexpr double kLanes = 128;

// "Residue": llama.cpp decodes Llama 2 7B Q4_0 at 146.8 tokens/s on an RTX 4090
// (github.com/ggml-org/llama.cpp pull request 6766): 6.8 ms, of which its weights take 4.2, and some 1,100
// kernels share the rest: 2.3 us each. That holds how long a kernel's reads need until they are at full rate,
// so no entry adds it again. "Counted": from the kernel's registers, which decide how many blocks a
// multiprocessor has, its chain of loads that wait for each other (500 to 700 ns each from memory, 200 to 300
// from the cache), barriers, atomic operations and fences.
constexpr std::array<KernelCost, cuda::kKernelClasses> kCosts = {{
    // Simple. Residue.
    {.start_s = 2.3e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Norm. Counted: one block, whose 64 to 128 additions a lane wait for each other, and a barrier;
    // llama.cpp's takes 2 us.
    {.start_s = 3e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Product. Residue. Counted: the last blocks of a matrix leave multiprocessors idle; 92 to 128 registers,
    // 4 to 5 blocks. 9 MB then take 78 % of the bytes' bound on an RTX 4090 and 55 % on an H100, 50 MB 91 %
    // and 84 %.
    {.start_s = 2.3e-6, .vram_share = 0.95, .multiprocessor_bytes = 0},
    // Slow product. Counted: 153 to 166 registers, 3 blocks, loads of two bytes.
    {.start_s = 2.3e-6, .vram_share = 0.85, .multiprocessor_bytes = 8.5},
    // Listed product. Counted: the list's length, a neuron, its row and the row's weights are loads that wait
    // for each other, and most blocks of a grid for all neurons have nothing to do.
    {.start_s = 4.3e-6, .vram_share = 0.95, .multiprocessor_bytes = 0},
    // Slow listed product: both.
    {.start_s = 4.3e-6, .vram_share = 0.85, .multiprocessor_bytes = 8.5},
    // Tiles. Residue, and a stage of weights and activations before the first product.
    {.start_s = 3e-6, .vram_share = 0.95, .multiprocessor_bytes = 0},
    // Slow tiles. Counted: 201 registers, one block of 8 warps on a multiprocessor, beside two: 2 to 3 times
    // slower.
    {.start_s = 3e-6, .vram_share = 0.95, .multiprocessor_bytes = 0, .multiply_adds_share = 0.4},
    // Down rows. Counted: loads of two bytes, 5.5 instructions a weight, two blocks, then a lane's sums
    // joined and added by atomic operations.
    {.start_s = 3.3e-6, .vram_share = 0.85, .multiprocessor_bytes = 7},
    // List. Counted: ballots, a block's places by an atomic operation whose result the writes wait for, and
    // for keep_passed two loads that wait for the list.
    {.start_s = 4e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Sums. Counted: a load over PCIe that tells whether the CPU has a share, an atomic operation and a
    // barrier.
    {.start_s = 4.5e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Hand-over. Counted: writes over PCIe, a fence of the whole system in each block, an atomic operation,
    // and the last block's word.
    {.start_s = 4.5e-6, .vram_share = 1, .multiprocessor_bytes = 0},
    // Attention. Counted: with fewer than 256 keys a block for each key-value head; then a fence and the last
    // block joins the slices. Loads of two bytes, and half of the threads idle while values are added.
    {.start_s = 5e-6, .vram_share = 0.7, .multiprocessor_bytes = 7},
    // Attention tiles. Counted: its instructions are declared; the first keys, their barrier and the last
    // values are not hidden.
    {.start_s = 5e-6, .vram_share = 0.95, .multiprocessor_bytes = 0},
    // Gather. Residue; the link's share is kGatherShare.
    {.start_s = 2.3e-6, .vram_share = 1, .multiprocessor_bytes = 0},
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
                 .multiply_adds_per_s = cost.multiply_adds_share * gpu.multiply_adds_per_s};
  }
  return speeds;
}

double reached_instructions_per_s(const GpuProfile& gpu) {
  constexpr double kReached = 0.6, kNoBound = 1e18;
  return gpu.instructions_per_s > 0 ? kReached * gpu.instructions_per_s : kNoBound;
}

double first_kernel_s(const GpuProfile& gpu) {
  // No GPU starts a kernel sooner, whatever a profile's round trip leaves.
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
