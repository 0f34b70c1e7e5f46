// Down projections summed as integers (kernels/neuron_sums.h), on one CPU thread: the table of loops per ISA.
//
// The counterpart of down_kernels.h for layers that the GPU has a share of. All ISAs give the same integers,
// whatever the order of neurons and the shares of columns.
#pragma once

#include "kernels/cpu/down_kernels.h"

namespace hearth {

/// Adds the contributions of n neurons to sums.
struct DownSumsArgs {
  const DownColumns* down = nullptr;
  const int32_t* ids = nullptr;   // [n] ascending
  const float* values = nullptr;  // [n]; of those not finite the contributions may be anything
  int n = 0;
  int64_t column_begin = 0;  // a multiple of kDownStripColumns
  int64_t column_end = 0;    // <= down->n_cols
  int64_t* sums = nullptr;   // [column_end - column_begin]
  float* parts = nullptr;    // [2, column_end - column_begin] scratch
};

/// Adds a panel's neurons to the sums of many tokens.
struct PanelSumsArgs {
  const float* weights = nullptr;    // [kPanelNeurons, kPanelWidth]; rows that no token wants may be anything
  const uint64_t* wanted = nullptr;  // [n_tokens] bit i: the token wants row i
  const float* values = nullptr;     // of the wanted rows only: token after token, row after row
  int n_tokens = 0;
  int64_t n_columns = 0;    // <= kPanelWidth
  int64_t* sums = nullptr;  // [n_tokens, stride]
  int64_t stride = 0;
};

/// All are thread-safe and allocate nothing.
struct DownSumsKernels {
  /// Indexed by the DType of down.rows.
  std::array<void (*)(const DownSumsArgs& args), kDTypeCount> add_rows;
  /// Of down.coded.
  void (*add_coded)(const DownSumsArgs& args);
  void (*add_panel)(const PanelSumsArgs& args);
  /// Weights [column, column + n) of one neuron, column and the room in out multiples of 32.
  void (*dequantize_coded)(const CodedColumns& coded, int64_t neuron, int64_t column, int64_t n, float* out);
};

/// REQUIRES: isa is one of supported_isas().
const DownSumsKernels& down_sums_kernels(Isa isa);

extern const DownSumsKernels kDownSumsScalar;
extern const DownSumsKernels kDownSumsAvx2;
extern const DownSumsKernels kDownSumsAvx512;

}  // namespace hearth
