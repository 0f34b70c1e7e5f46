// Plans the copies of a range of a layer's neurons from host memory to a device buffer. It uses as few strips
// of bytes as possible, both for layers that are stored as bundles and for packed matrices.
//
// NeuronStrips only computes addresses. StreamedShare creates one for each layer of a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace hearth::cuda {

/// Neurons per word of the bits of wanted neurons. Pieces begin at whole words.
inline constexpr int64_t kWordNeurons = 64;

/// Rows of one or more matrices that are adjacent in host memory, for every neuron. One copy transfers these
/// rows for all neurons of a piece.
struct Strip {
  const std::byte* data = nullptr;  // address of neuron 0
  size_t stride = 0;                // bytes between neurons in host memory
  size_t width = 0;                 // bytes of a neuron's rows, including the gaps between them
  size_t pitch = 0;                 // bytes between neurons in the buffer
  size_t begin = 0;                 // offset in the buffer
  size_t align = 1;                 // on the device, every row begins at a multiple of this
};

class NeuronStrips {
 public:
  /// with_gates: whether to copy gate rows, too. Scales that groups of neurons share are not copied.
  NeuronStrips(const FfnNeurons& host, bool with_gates, size_t buffer_bytes);

  std::span<const Strip> strips() const { return {strips_.data(), n_strips_}; }
  /// The number of neurons that fit into the buffer at a time, a multiple of kWordNeurons. 0: the buffer is
  /// too small.
  int64_t piece_neurons() const { return piece_neurons_; }

  /// Returns a copy of `device`, the layer's weights at device addresses, with views of the matrices in
  /// `buffer` in place of those that were copied there. The first row in the buffer belongs to neuron
  /// `begin`. Kernels find a row by neuron number, so a view begins at the address that the row of neuron 0
  /// would have, which lies before the buffer unless `begin` is 0. Kernels may read only rows that were
  /// copied.
  FfnNeurons in_buffer(const FfnNeurons& device, int64_t begin, const std::byte* buffer) const;

 private:
  /// Rows of one matrix in host memory.
  struct Rows {
    const std::byte* data;
    size_t stride, bytes;
    /// Returns the alignment of rows on the device, which is the alignment of packed rows. The kernels need
    /// it.
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
