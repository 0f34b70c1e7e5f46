// The copies that bring a range of a layer's neurons from host memory to a device buffer: as few strips of
// bytes as possible, whether the layer is stored as bundles or as packed matrices.
//
// Only computes addresses; StreamedShare makes one for each layer of a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace hearth::cuda {

/// Pieces begin at whole words of the bits that say which neurons are wanted.
inline constexpr int64_t kWordNeurons = 64;

/// Adjacent host rows of one or more matrices for each neuron. One copy transfers them.
struct Strip {
  const std::byte* data = nullptr;  // address of neuron 0
  size_t stride = 0;                // bytes between neurons in host memory
  size_t width = 0;                 // bytes of a neuron's rows, and of the gaps between them
  size_t pitch = 0;                 // bytes between neurons in the buffer
  size_t begin = 0;                 // offset in the buffer
  size_t align = 1;                 // every row begins at a multiple of this on the device
};

class NeuronStrips {
 public:
  /// with_gates: gate rows are copied too. Scales that groups of neurons share are not copied.
  NeuronStrips(const FfnNeurons& host, bool with_gates, size_t buffer_bytes);

  std::span<const Strip> strips() const { return {strips_.data(), n_strips_}; }
  /// How many neurons fit the buffer at once, a multiple of kWordNeurons; 0: the buffer is too small.
  int64_t piece_neurons() const { return piece_neurons_; }

  /// Returns `device`, the layer as the device reads it, with the copied rows replaced by those in `buffer`,
  /// whose first row is row `begin`. Rows are found by neuron number, so the matrices point to where their
  /// row 0 would be; only rows that were copied may be read.
  FfnNeurons in_buffer(const FfnNeurons& device, int64_t begin, const std::byte* buffer) const;

 private:
  /// Rows of one matrix in host memory.
  struct Rows {
    const std::byte* data;
    size_t stride, bytes;
    /// The alignment of rows on the device. It is that of packed rows, which the kernels need.
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
