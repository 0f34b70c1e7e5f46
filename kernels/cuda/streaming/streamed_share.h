// Lets the device instead of the CPU compute a layer's cold neurons, which are only in host memory, in a long
// step. The weights are copied through two buffers: one piece is copied while the previous piece is computed.
// Layers that are completely in host memory are copied in the same way.
//
// This is worthwhile for prompts, because a weight that crosses the bus once serves all tokens of a step,
// while the CPU needs time for each token (crossover_tokens() in kernels/cuda/runtime/device_options.h). The
// host does not wait. It enqueues the work and continues with the next layer, whose first copy runs while the
// last piece of this layer is computed. If host memory is not pinned, however, the CPU's threads first copy
// to pinned memory, and the caller waits until a pinned buffer is free.
//
// The division into pieces does not change a bit of the result, because sums over neurons are integers. Owned
// by CudaHybridFfn; engine thread.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/neurons/device_share.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/cuda/streaming/neuron_strips.h"
#include "kernels/hybrid_ffn.h"

namespace hearth::cuda {

class StreamedShare {
 public:
  /// from_tokens: see DeviceOptions::stream_from_tokens.
  StreamedShare(CpuBackend& cpu, int from_tokens) : cpu_(cpu), from_tokens_(from_tokens) {}
  ~StreamedShare() { drain(); }
  StreamedShare(const StreamedShare&) = delete;
  StreamedShare& operator=(const StreamedShare&) = delete;

  /// Waits for all copies, even after an error. Afterward host memory may be freed.
  void drain() noexcept { cudaStreamSynchronize(copies_); }

  /// Allocates pinned memory if bounds.stream_bytes > 0. Call it once at load.
  void reserve(const StepBounds& bounds);

  /// Whether a layer's cold neurons are streamed in a step of this many tokens. The step must be long enough,
  /// and 64 neurons must fit into a buffer.
  bool takes(const HybridLayer& layer, int n_tokens, bool gates_given) const;

  /// Adds the contributions and counts of the neurons in scratch.cold_wanted, like add_neurons() in
  /// device_share.h, and overwrites the same parts of scratch. Also overwrites the list of hot neurons.
  /// REQUIRES: split_set() has filled scratch.cold_wanted and scratch.any; takes(layer, ...) is true; if
  /// neurons are noted, the hot neurons are already noted.
  void add(const HybridLayer& layer, const HybridCall& call, const NeuronInput& input, const Scratch& scratch,
           cudaStream_t stream, NeuronNotes notes = {});

  /// Whether a step of this many tokens copies weights to the device instead of using the CPU. Always false
  /// if there are no buffers.
  bool long_enough(int n_tokens) const {
    return from_tokens_ > 0 && n_tokens >= from_tokens_ && buffer_bytes_ > 0;
  }
  /// Like cuda::matmul() for all rows of a matrix, but op.weight is in host memory and is copied through the
  /// two buffers. pinned: whether the matrix's memory is page-locked.
  void multiply(MatmulOp op, bool pinned, const Scratch& scratch, cudaStream_t stream);
  /// The stream on which all copies to the device run, in the order of the calls.
  cudaStream_t copies() const { return copies_; }

  int from_tokens() const { return from_tokens_; }
  size_t buffer_bytes() const { return buffer_bytes_; }
  /// Neurons or rows [begin, end) in a buffer. Row `first` would be at the start of the buffer.
  struct Piece {
    int64_t first = 0, begin = 0, end = 0;
    size_t number = 0;  // index of the buffer
    std::byte* buffer = nullptr;
  };
  /// Enqueues the copy of the rows to the next buffer. Work that is enqueued on `stream` between this call
  /// and give_back() can read them there.
  Piece bring(std::span<const Strip> strips, Piece rows, bool pinned, const Scratch& scratch,
              cudaStream_t stream);
  void give_back(const Piece& piece, cudaStream_t stream);
  /// The buffers, which the caller may use for copies on copies() while no piece is brought, for example
  /// during decoding. bring() waits for the work that is enqueued on `stream` before give_back().
  size_t n_buffers() const { return used_.size(); }
  std::byte* borrow(size_t buffer, const Scratch& scratch);
  void give_back(size_t buffer, cudaStream_t stream) { give_back(Piece{.number = buffer}, stream); }

 private:
  void bring(const Strip& strip, const Piece& piece);
  void bring_by_staging(const Strip& strip, const Piece& piece);

  CpuBackend& cpu_;
  const int from_tokens_;
  size_t buffer_bytes_ = 0;
  Stream copies_;
  // Events for each buffer. arrived_: its copy is complete. used_: its neurons or rows are computed.
  std::array<Event, 2> arrived_, used_;
  size_t next_buffer_ = 0;
  // Pinned staging memory, for weights in host memory that is not pinned.
  std::array<PinnedArray<std::byte>, 2> staging_;
  std::array<Event, 2> sent_;
  size_t next_staging_ = 0;
};

}  // namespace hearth::cuda
