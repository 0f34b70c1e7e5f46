// Lets the device compute a layer's cold neurons in a long step, instead of the CPU. They are copied through
// two buffers: one piece is copied while the previous piece is computed.
//
// Weights of layers that lie in host memory as a whole are copied in the same way.
//
// This pays for prompts: a weight that crosses the bus once serves all tokens of a step, while the CPU needs
// time for each token (crossover_tokens() in kernels/cuda/runtime/device_options.h). The host does not wait:
// it enqueues and goes on to the next layer, so that layer's first copy runs while this layer's last piece is
// computed. Only if host memory is not pinned, the CPU's threads first copy to pinned memory, and the caller
// waits until a pinned buffer is free.
//
// Owned by CudaHybridFfn; engine thread. The division into pieces changes no bit, because sums over neurons
// are integers.
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

  /// Allocates pinned memory if bounds.stream_bytes > 0. At load, once.
  void reserve(const StepBounds& bounds);

  /// Whether a layer's cold neurons are streamed in a step of this many tokens: the step must be long enough,
  /// and 64 neurons must fit a buffer.
  bool takes(const HybridLayer& layer, int n_tokens, bool gates_given) const;

  /// Adds the contributions and counts of the neurons in scratch.cold_wanted, like add_neurons() in
  /// device_share.h, with its scratch and requirements. scratch must be as split_set() left it; the list of
  /// the hot neurons is overwritten. REQUIRES: takes(layer, ...); if neurons are noted, the hot ones were
  /// noted already.
  void add(const HybridLayer& layer, const HybridCall& call, const NeuronInput& input, const Scratch& scratch,
           cudaStream_t stream, NeuronNotes notes = {});

  /// Whether a step is long enough to copy weights to the device instead of using the CPU, and there are
  /// buffers.
  bool long_enough(int n_tokens) const {
    return from_tokens_ > 0 && n_tokens >= from_tokens_ && buffer_bytes_ > 0;
  }
  /// Like cuda::matmul() for all rows of a weight in host memory, which is copied through the same buffers.
  /// pinned: whether that memory is page-locked.
  void multiply(MatmulOp op, bool pinned, const Scratch& scratch, cudaStream_t stream);
  /// The stream of all copies to the device, in the order of the calls.
  cudaStream_t copies() const { return copies_; }

  size_t buffer_bytes() const { return buffer_bytes_; }
  /// Neurons or rows [begin, end) in a buffer; the buffer begins with `first`.
  struct Piece {
    int64_t first, begin, end;
    size_t number = 0;  // index of the buffer
    std::byte* buffer = nullptr;
  };
  /// Copies rows to the next buffer. Work enqueued on `stream` afterward finds them there until give_back().
  Piece bring(std::span<const Strip> strips, Piece rows, bool pinned, const Scratch& scratch,
              cudaStream_t stream);
  void give_back(const Piece& piece, cudaStream_t stream);

 private:
  void bring(const Strip& strip, const Piece& piece);
  void bring_by_staging(const Strip& strip, const Piece& piece);

  CpuBackend& cpu_;
  const int from_tokens_;
  size_t buffer_bytes_ = 0;
  Stream copies_;
  // One event for each buffer: its copy has arrived; its neurons are computed.
  std::array<Event, 2> arrived_, used_;
  size_t next_buffer_ = 0;
  // Pinned staging memory, for host memory that is not pinned.
  std::array<PinnedArray<std::byte>, 2> staging_;
  std::array<Event, 2> sent_;
  size_t next_staging_ = 0;
};

}  // namespace hearth::cuda
