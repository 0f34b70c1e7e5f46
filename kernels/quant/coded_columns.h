// Down projections of plain model files turned on their side: one row of codes per neuron.
//
// Why: a file's ffn_down is [d_model, d_ff] with blocks along d_ff, so that one neuron's column is spread
// over all rows. Sparse FFNs read few neurons and want each as one stream. The weights stay what they were,
// to the bit: codes keep the blocks' integers, and a group of neurons shares the row of scales that its
// blocks had (CodedColumns in kernels/neurons.h). Called at load; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matrix.h"
#include "kernels/neurons.h"

namespace hearth {

/// Neurons that share scales in the coarsest type.
inline constexpr int kLargestColumnGroup = 32;

/// Bytes of one neuron: its codes, or its plain row where the source is of a float type.
size_t column_codes_bytes(DType source, int64_t d_model);

/// Bytes of the scales and mins of a whole matrix [d_model, d_ff]; 0 for float types.
size_t column_scales_bytes(const Matrix& down);

/// Ranges of neurons begin at multiples of this: one block of the largest types.
inline constexpr int64_t kTurnedNeurons = 256;

/// Turns neurons [begin, end) only. Ranges that do not overlap may be turned at the same time. REQUIRES:
/// begin a multiple of kTurnedNeurons, end too, or it is d_ff.
void turn_neurons(const Matrix& down, int64_t begin, int64_t end, std::byte* codes, size_t stride,
                  std::byte* scales);

/// The view of what turn_neurons has filled, or will.
DownColumns turned_columns(const Matrix& down, const float* bias, const std::byte* codes, size_t stride,
                           const std::byte* scales);

/// Fills codes (neuron j's column_codes_bytes() at codes + j * stride) and scales (column_scales_bytes()),
/// which must outlive the columns returned. `down` is [d_model, d_ff] of any type.
DownColumns turn_down_projection(const Matrix& down, const float* bias, std::byte* codes, size_t stride,
                                 std::byte* scales);

}  // namespace hearth
