// How a piece of a layer's neurons is copied from host memory to a buffer of the device: as few strips of
// bytes, whether the layer lies as bundles or as packed matrices.
//
// Plain arithmetic on addresses, made anew for each layer of a step (StreamedShare).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace hearth::cuda {

/// Host rows of one or more matrices that lie side by side, a neuron's all together: what one copy brings.
struct Strip {
  const std::byte* data = nullptr;  // of neuron 0
  size_t stride = 0;                // bytes between neurons in host memory
  size_t width = 0;                 // of a neuron's rows, with what lies between them
  size_t pitch = 0;                 // bytes between neurons in the buffer
  size_t begin = 0;                 // in the buffer
  size_t align = 1;                 // that every row begins at a multiple of, on the device
};

class NeuronStrips {
 public:
  /// with_gates: gate rows are brought too. Scales that groups of neurons share are not.
  NeuronStrips(const FfnNeurons& host, bool with_gates, size_t buffer_bytes);

  std::span<const Strip> strips() const { return {strips_.data(), n_strips_}; }
  /// Neurons that fit the buffer at once, a multiple of 64; 0: it is too small.
  int64_t piece_neurons() const { return piece_neurons_; }

  /// `device`, the layer as the device reads it, with the rows that the strips bring in `buffer`, where row
  /// `begin` comes first. Rows are found by their neurons' numbers, so matrices begin where their row 0 would
  /// be; only rows of the piece may be read.
  FfnNeurons in_buffer(const FfnNeurons& device, int64_t begin, const std::byte* buffer) const;

 private:
  /// Rows of one matrix in host memory.
  struct Rows {
    const std::byte* data;
    size_t stride, bytes;
    /// Rows begin at multiples of this on the device, as they do where they lie packed: kernels rely on it.
    size_t align() const;
  };
  static Rows rows_of(const Matrix& matrix);
  static Rows rows_of(const DownColumns& down);
  static bool join(const Rows& rows, Strip& strip);
  void add(const Rows& rows);
  const Strip& strip_of(const std::byte* row_0) const;
  const std::byte* moved(const std::byte* row_0, int64_t begin, const std::byte* buffer) const;

  const FfnNeurons& host_;
  bool with_gates_;
  std::array<Strip, 3> strips_;
  size_t n_strips_ = 0;
  int64_t piece_neurons_ = 0;
};

}  // namespace hearth::cuda
