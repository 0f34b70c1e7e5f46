#include "kernels/cuda/streaming/streamed_share.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace hearth::cuda {
namespace {

// A copy of this size takes 160 us on PCIe 4, which is many times the time to start it.
constexpr size_t kStagingBytes = size_t{4} << 20;
// The number of bytes that a CPU thread copies at a time.
constexpr size_t kGrainBytes = size_t{256} << 10;

}  // namespace

void StreamedShare::reserve(const StepBounds& bounds) {
  buffer_bytes_ = bounds.stream_bytes;
  if (buffer_bytes_ == 0) return;
  // A staging buffer must hold the rows of at least one neuron, even if they are floats.
  const size_t bytes = std::max(kStagingBytes, 4 * sizeof(float) * static_cast<size_t>(bounds.max_cols));
  for (PinnedArray<std::byte>& staging : staging_) staging = PinnedArray<std::byte>(bytes);
}

bool StreamedShare::takes(const HybridLayer& layer, int n_tokens, bool gates_given) const {
  return from_tokens_ > 0 && n_tokens >= from_tokens_ &&
         NeuronStrips(layer.host, !gates_given, buffer_bytes_).piece_neurons() > 0;
}

void StreamedShare::add(const HybridLayer& layer, const HybridCall& call, const NeuronInput& input,
                        const Scratch& scratch, cudaStream_t stream, NeuronNotes notes) {
  notes.first = false;
  const NeuronStrips plan(layer.host, call.gates == nullptr, buffer_bytes_);
  const int64_t n_neurons = layer.host.down.n_neurons;
  DeviceNeuronSet set = scratch.hot;  // reuse the list: on the stream, it is read before it is overwritten
  set.resize(call.n_tokens, n_neurons);
  set.wanted = scratch.cold_wanted;
  const uint64_t* any_cold = scratch.any + (n_neurons + 63) / 64;
  for (int64_t first = layer.first_on_host / kWordNeurons * kWordNeurons; first < n_neurons;
       first += plan.piece_neurons()) {
    const Piece piece = bring(
        plan.strips(),
        {first, std::max(first, layer.first_on_host), std::min(n_neurons, first + plan.piece_neurons())},
        layer.host_pinned, scratch, stream);
    set.any.max = piece.end - first;
    list_bits(any_cold + first / kWordNeurons, piece.end - first, set.any, stream, first);
    add_neurons({.ffn = plan.in_buffer(layer.device, first, piece.buffer),
                 .least_contribution = call.least_contribution},
                input, set, call.gates, scratch, stream, notes);
    give_back(piece, stream);
  }
}

void StreamedShare::multiply(MatmulOp op, bool pinned, const Scratch& scratch, cudaStream_t stream) {
  const Matrix weight = op.weight;
  const float* const bias = op.bias;
  float* const out = op.out;
  const size_t bytes = row_bytes(weight.dtype, weight.n_cols);
  const Strip strip{
      .data = weight.data, .stride = weight.stride_bytes(), .width = bytes, .pitch = bytes, .begin = 0};
  const auto most = static_cast<int64_t>(buffer_bytes_ / bytes);
  assert(most > 0 && op.rows.ids == nullptr);
  for (int64_t first = 0; first < weight.n_rows; first += most) {
    const Piece piece = bring(std::span(&strip, 1), {first, first, std::min(weight.n_rows, first + most)},
                              pinned, scratch, stream);
    op.weight = {piece.buffer, weight.dtype, piece.end - first, weight.n_cols};
    if (bias != nullptr) op.bias = bias + first;
    op.out = out + first;
    matmul(op, stream);
    give_back(piece, stream);
  }
}

StreamedShare::Piece StreamedShare::bring(std::span<const Strip> strips, Piece piece, bool pinned,
                                          const Scratch& scratch, cudaStream_t stream) {
  piece.number = next_buffer_;
  next_buffer_ = 1 - next_buffer_;
  piece.buffer = borrow(piece.number, scratch);
  for (const Strip& strip : strips) pinned ? bring(strip, piece) : bring_by_staging(strip, piece);
  check(cudaEventRecord(arrived_[piece.number], copies_), "marking the end of a copy");
  check(cudaStreamWaitEvent(stream, arrived_[piece.number], 0), "waiting for a piece of the weights");
  return piece;
}

std::byte* StreamedShare::borrow(size_t buffer, const Scratch& scratch) {
  check(cudaStreamWaitEvent(copies_, used_[buffer], 0), "waiting until a buffer is free");
  return scratch.streamed[buffer];
}

void StreamedShare::give_back(const Piece& piece, cudaStream_t stream) {
  check(cudaEventRecord(used_[piece.number], stream), "marking the end of a piece of the weights");
}

void StreamedShare::bring(const Strip& strip, const Piece& piece) {
  const auto n = static_cast<size_t>(piece.end - piece.begin);
  const std::byte* from = strip.data + static_cast<size_t>(piece.begin) * strip.stride;
  std::byte* to = piece.buffer + strip.begin + static_cast<size_t>(piece.begin - piece.first) * strip.pitch;
  constexpr const char* kDoing = "bringing neurons to the device";
  if (strip.pitch == strip.stride) {
    check(cudaMemcpyAsync(to, from, (n - 1) * strip.stride + strip.width, cudaMemcpyHostToDevice, copies_),
          kDoing);
  } else {
    check(cudaMemcpy2DAsync(to, strip.pitch, from, strip.stride, strip.width, n, cudaMemcpyHostToDevice,
                            copies_),
          kDoing);
  }
}

void StreamedShare::bring_by_staging(const Strip& strip, const Piece& piece) {
  const auto most = static_cast<int64_t>(staging_[0].size() / strip.pitch);
  for (int64_t begin = piece.begin; begin < piece.end; begin += most) {
    const int64_t n = std::min(most, piece.end - begin);
    const size_t i = next_staging_;
    next_staging_ = 1 - next_staging_;
    check(cudaEventSynchronize(sent_[i]), "waiting until pinned memory is free");
    const std::byte* from = strip.data + static_cast<size_t>(begin) * strip.stride;
    std::byte* staging = staging_[i].data();
    const int64_t grain = std::max(int64_t{1}, static_cast<int64_t>(kGrainBytes / strip.pitch));
    cpu_.threads().for_each_piece(n, grain, [&](int64_t row, int64_t end, int /*thread*/) {
      for (; row < end; ++row) {
        const auto r = static_cast<size_t>(row);
        std::memcpy(staging + r * strip.pitch, from + r * strip.stride, strip.width);
      }
    });
    std::byte* to = piece.buffer + strip.begin + static_cast<size_t>(begin - piece.first) * strip.pitch;
    const size_t bytes = (static_cast<size_t>(n) - 1) * strip.pitch + strip.width;
    check(cudaMemcpyAsync(to, staging, bytes, cudaMemcpyHostToDevice, copies_),
          "bringing neurons to the device");
    check(cudaEventRecord(sent_[i], copies_), "marking the end of a copy");
  }
}

}  // namespace hearth::cuda
