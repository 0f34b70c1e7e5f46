#include "kernels/cuda/streaming/streamed_kv.h"

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

/// Calls copy(first, n) for every run of consecutively numbered KV blocks that hold the positions of the
/// step's tokens. before: also include the KV blocks that hold the earlier positions of these tokens'
/// sequences.
template <class Copy>
void for_each_run(const KvPlaces& places, int block_tokens, bool before, const Copy& copy) {
  int64_t first = 0, n = 0;
  const auto add = [&](int64_t block) {
    if (n > 0 && block == first + n) {
      ++n;
      return;
    }
    if (n > 0) copy(first, n);
    first = block;
    n = 1;
  };
  for (int begin = 0, end; begin < places.n_tokens; begin = end) {
    const int32_t sequence = places.table_of[begin];
    for (end = begin + 1; end < places.n_tokens && places.table_of[end] == sequence;) ++end;
    const int32_t* const table = places.block_tables + int64_t{sequence} * places.max_blocks;
    for (int i = before ? 0 : places.positions[begin] / block_tokens;
         i <= places.positions[end - 1] / block_tokens; ++i) {
      add(table[i]);
    }
  }
  if (n > 0) copy(first, n);
}

void copy_blocks(const KvPlaces& places, const KvShape& shape, bool before, KvLayer from, KvLayer to,
                 cudaMemcpyKind kind, cudaStream_t stream) {
  const int64_t of_block = shape.block_bytes();
  const auto at = [=](void* memory, int64_t block) {
    return static_cast<std::byte*>(memory) + block * of_block;
  };
  for_each_run(places, shape.block_tokens, before, [&](int64_t first, int64_t n) {
    const auto bytes = static_cast<size_t>(n * of_block);
    check(cudaMemcpyAsync(at(to.k, first), at(from.k, first), bytes, kind, stream), "copying keys");
    check(cudaMemcpyAsync(at(to.v, first), at(from.v, first), bytes, kind, stream), "copying values");
  });
}

}  // namespace

void StreamedKv::bring(const KvPlaces& places, const KvShape& shape, KvLayer host, KvLayer device,
                       cudaStream_t copies, cudaStream_t stream) {
  check(cudaStreamWaitEvent(copies, used_, 0), "waiting until the KV blocks of the layer before are free");
  copy_blocks(places, shape, /*before=*/true, host, device, cudaMemcpyHostToDevice, copies);
  check(cudaEventRecord(arrived_, copies), "marking the end of copying KV blocks");
  check(cudaStreamWaitEvent(stream, arrived_, 0), "waiting for KV blocks");
}

void StreamedKv::write_back(const KvPlaces& places, const KvShape& shape, KvLayer host, KvLayer device,
                            cudaStream_t stream) {
  copy_blocks(places, shape, /*before=*/false, device, host, cudaMemcpyDeviceToHost, stream);
}

void StreamedKv::give_back(cudaStream_t stream) {
  check(cudaEventRecord(used_, stream), "marking the end of the use of KV blocks");
}

}  // namespace hearth::cuda
