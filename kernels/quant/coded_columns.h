// Transposes down projections of model files in the usual layout, so that each neuron has one row of codes.
//
// A file's ffn_down is [d_model, d_ff] with weight blocks along d_ff, so one neuron's column is spread over
// all rows. Sparse FFNs read only some neurons, and should read each as one stream. The weights keep their
// exact values: the codes are the quantized integers of the blocks, unchanged, and so are the scales. The
// neurons of a group share one row of scales (CodedColumns in kernels/neurons.h). Called at load;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matrix.h"
#include "kernels/neurons.h"

namespace hearth {

/// The largest number of neurons that share scales, over all types.
inline constexpr int kLargestColumnGroup = 32;

/// Bytes of one neuron: its codes, or its plain row if the source has a float type.
size_t column_codes_bytes(DType source, int64_t d_model);

/// Bytes of the scales and mins of a whole matrix [d_model, d_ff]; 0 for float types.
size_t column_scales_bytes(const Matrix& down);

/// Ranges of neurons begin at multiples of this, which is one block of the largest types.
inline constexpr int64_t kTurnedNeurons = 256;

/// Transposes neurons [begin, end) only. Ranges that do not overlap may be transposed at the same time.
/// REQUIRES: begin is a multiple of kTurnedNeurons; end is a multiple too, or is d_ff.
void turn_neurons(const Matrix& down, int64_t begin, int64_t end, std::byte* codes, size_t stride,
                  std::byte* scales);

/// Returns a view of the codes and scales that turn_neurons() writes. The view may be made before they are
/// written.
DownColumns turned_columns(const Matrix& down, const float* bias, const std::byte* codes, size_t stride,
                           const std::byte* scales);

/// Transposes the whole matrix `down`, [d_model, d_ff] of any type. Writes column_codes_bytes() bytes for
/// each neuron j at codes + j * stride, and column_scales_bytes() bytes at scales. Both must outlive the
/// returned view.
DownColumns turn_down_projection(const Matrix& down, const float* bias, std::byte* codes, size_t stride,
                                 std::byte* scales);

// ---- packed columns: a whole matrix, the neurons first, then the scales and mins ----
//
// Neurons and scales start on cache lines if the first neuron does. `down` may lack its data, except in
// pack_columns().

/// Bytes from the start of a neuron to the start of the next one.
size_t packed_columns_stride(const Matrix& down);
/// Bytes of all neurons, scales and mins: a multiple of 64.
size_t packed_columns_bytes(const Matrix& down);
/// Transposes the whole matrix to `to`.
void pack_columns(const Matrix& down, std::byte* to);
/// Returns a view of packed columns, which may be written later. DownColumns::begin() returns `at`.
DownColumns packed_columns(const Matrix& down, const std::byte* at);

}  // namespace hearth
