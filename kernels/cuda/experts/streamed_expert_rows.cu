// Converts rows of experts from the file's layout, in which they were copied to the device, to the layout of
// slots.
//
// Only MXFP4 experts that are streamed need this conversion; the host converts resident experts at load. A
// thread moves one block with 17 loads of a byte and one store of 16 bytes. The copy over PCIe takes ten
// times as long.
#include <cassert>

#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"
#include "kernels/quant/formats.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

struct alignas(16) Nibbles {
  uint8_t bytes[sizeof(BlockMXFP4::qs)];
};

__global__ void __launch_bounds__(kThreads)
    write_slots_kernel(const uint8_t* raw, int64_t n_rows, int64_t n_blocks, int64_t slot_row, uint8_t* to) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n_rows * n_blocks) return;
  const int64_t row = i / n_blocks, block = i % n_blocks, place = block % kRunBlocks;
  const uint8_t* from = raw + i * static_cast<int64_t>(sizeof(BlockMXFP4));
  uint8_t* run = to + row * slot_row + (block - place) * static_cast<int64_t>(sizeof(BlockMXFP4));
  run[place] = from[0];
  Nibbles nibbles;
  GPU_UNROLL
  for (int b = 0; b < static_cast<int>(sizeof nibbles.bytes); ++b) nibbles.bytes[b] = from[1 + b];
  gpu_aligned<Nibbles>(run + kRunBlocks)[place] = nibbles;
  if (block + 1 < n_blocks) return;
  for (int64_t rest = place + 1; rest < kRunBlocks; ++rest)
    run[rest] = 0;  // scales of blocks beyond the last
}

}  // namespace

void write_slots(const std::byte* raw, DType type, int64_t n_rows, int64_t n_cols, std::byte* to,
                 cudaStream_t stream) {
  assert(type == DType::kMXFP4);
  static_assert(sizeof(BlockMXFP4) == 1 + sizeof(BlockMXFP4::qs));
  const int64_t n_blocks = n_cols / BlockMXFP4::kElems, n = n_rows * n_blocks;
  if (n == 0) return;
  const auto slot_row = static_cast<int64_t>(slot_row_bytes(type, n_cols));
  check(gpu_launch(
            [=] {
              return KernelWork{.bytes = static_cast<double>(n) * sizeof(BlockMXFP4) +
                                         static_cast<double>(n_rows * slot_row)};
            },
            gpu_kernel<write_slots_kernel>, static_cast<unsigned>((n + kThreads - 1) / kThreads), kThreads, 0,
            stream, reinterpret_cast<const uint8_t*>(raw), n_rows, n_blocks, slot_row,
            reinterpret_cast<uint8_t*>(to)),
        "laying out streamed experts");
}

}  // namespace hearth::cuda
