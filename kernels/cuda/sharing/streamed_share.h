// A layer's cold neurons of a long step, brought to the device instead of being computed by the CPU: piece by
// piece through two buffers, the next piece's copy under the computation of the one before.
//
// For prompts: a weight that crosses the bus once serves all tokens of a step, while the CPU computes each
// token anew (crossover_tokens() in cuda_backend.h). Nobody waits: the host enqueues and goes on to the next
// layer, whose first piece is thus on its way while this layer's last one is computed. Only where host memory
// is not pinned do the CPU's threads first copy to pinned memory, and the caller waits for place there.
//
// Owned by CudaHybridFfn; engine thread. Which neurons are computed, in which pieces, changes no bit: sums
// over neurons are integers.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/cuda/sharing/neuron_strips.h"
#include "kernels/hybrid_ffn.h"

namespace hearth::cuda {

class StreamedShare {
 public:
  /// from_tokens: see DeviceOptions::stream_from_tokens.
  StreamedShare(CpuBackend& cpu, int from_tokens) : cpu_(cpu), from_tokens_(from_tokens) {}
  ~StreamedShare() { drain(); }
  StreamedShare(const StreamedShare&) = delete;
  StreamedShare& operator=(const StreamedShare&) = delete;

  /// Waits for all copies: host memory may go. Whatever has failed.
  void drain() noexcept { cudaStreamSynchronize(copies_); }

  /// Takes pinned memory where bounds.stream_bytes > 0. At load, once.
  void reserve(const StepBounds& bounds);

  /// Whether a layer's cold neurons are to be brought in a step of so many tokens: it is long enough, and 64
  /// neurons fit a buffer.
  bool takes(const HybridLayer& layer, int n_tokens, bool gates_given) const;

  /// Adds what scratch.cold_wanted's neurons contribute, and counts, as add_neurons() does (device_share.h),
  /// with its scratch and requirements. scratch: as split_set() has filled it; the list of the hot neurons is
  /// overwritten. REQUIRES: takes(layer, ...); where neurons are noted, the hot ones were.
  void add(const HybridLayer& layer, const HybridCall& call, const Scratch& scratch, cudaStream_t stream,
           NeuronNotes notes = {});

 private:
  /// Neurons [begin, end) in a buffer that begins with neuron `first`.
  struct Piece {
    int64_t first, begin, end;
    std::byte* buffer;
  };
  void bring(const Strip& strip, const Piece& piece);
  void bring_by_staging(const Strip& strip, const Piece& piece);

  CpuBackend& cpu_;
  const int from_tokens_;
  size_t buffer_bytes_ = 0;
  Stream copies_;
  // Of the two buffers: what was copied has arrived, what was computed of it is done.
  std::array<Event, 2> arrived_, used_;
  size_t next_buffer_ = 0;
  // Pinned memory between host memory that is not pinned and the device.
  std::array<PinnedArray<std::byte>, 2> staging_;
  std::array<Event, 2> sent_;
  size_t next_staging_ = 0;
};

}  // namespace hearth::cuda
