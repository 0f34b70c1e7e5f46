// The inner loops of the sparse FFN on one CPU thread: one table of functions per ISA.
//
// SparseFfn (kernels/cpu/sparse_ffn.h) divides the neurons of a step among threads; a function here computes
// one list of neurons. Every ISA gives the same bits: a sum is a chain of fused multiply-adds over the
// neurons in list order, with weights as dequantize_row gives them. For CodedColumns, kernels/neurons.h
// defines the sum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa.h"
#include "kernels/neurons.h"

namespace hearth {

/// Strips of columns begin at multiples of this, the largest block of all types.
inline constexpr int64_t kDownStripColumns = 256;

/// The arguments of a call that adds values[i] * down row ids[i] to sum, for n neurons.
struct DownArgs {
  const DownColumns* down = nullptr;
  const int32_t* ids = nullptr;   // [n] ascending
  const float* values = nullptr;  // [n]
  int n = 0;
  bool fresh = false;        // true: the initial contents of sum are ignored
  int64_t column_begin = 0;  // a multiple of kDownStripColumns
  int64_t column_end = 0;    // <= down->n_cols
  float* sum = nullptr;      // [column_end - column_begin]
};

/// The maximum number of neurons in a panel of dequantized weights: as many as a word of a NeuronSet has
/// bits.
inline constexpr int kPanelNeurons = 64;
/// Columns of a panel: 64 neurons of this many columns are 32 KB, which stay in the L1 cache while all tokens
/// use them.
inline constexpr int kPanelWidth = 128;
inline constexpr int64_t kPanelFloats = int64_t{kPanelNeurons} * kPanelWidth;

/// The arguments of a call that adds a panel's weights to the sums of many tokens.
struct DownPanelArgs {
  const float* weights = nullptr;    // [kPanelNeurons, kPanelWidth]; rows that no token wants may have any
                                     // contents
  const uint64_t* wanted = nullptr;  // [n_tokens] bit i: the token wants row i
  const float* values = nullptr;     // values of the wanted rows only: by token, then by row
  int n_tokens = 0;
  float* sums = nullptr;  // [n_tokens, kPanelWidth]
  // For CodedColumns: rows [group_begin, group_end) of `weights` are codes, and `scales` and `mins`
  // [kPanelWidth] are the factors of this group. For other types, `scales` and `mins` are null.
  const float* scales = nullptr;
  const float* mins = nullptr;
  int group_begin = 0;
  int group_end = 0;
};

/// One ISA's functions. All are thread-safe and allocate nothing.
struct DownKernels {
  /// Indexed by the DType of down.rows. REQUIRES: n > 0.
  std::array<void (*)(const DownArgs& args), kDTypeCount> add_rows;
  /// For down.coded. REQUIRES: n > 0.
  void (*add_coded)(const DownArgs& args);
  /// Dequantizes weights [column, column + n) of one row of down.rows to the floats that dequantize_row
  /// gives. column is a multiple of the type's block size and of 32, and so is n, unless the row ends at
  /// column + n.
  std::array<void (*)(const Matrix& rows, int64_t row, int64_t column, int64_t n, float* out), kDTypeCount>
      dequantize;
  /// Writes codes [column, column + n) of one neuron, minus the offset, as floats.
  void (*decode)(const CodedColumns& coded, int64_t neuron, int64_t column, int64_t n, float* out);
  void (*factors)(const CodedColumns& coded, const std::byte* table, int64_t group, int64_t column, int64_t n,
                  float* out);
  void (*add_panel)(const DownPanelArgs& args);
  /// Sets bit j of bits to !(score < at_least). The score is values[j], or |values[j]| * sizes[j] if sizes is
  /// not null. Bits from n on in the last word are 0.
  void (*select)(const float* values, const float* sizes, int64_t n, float at_least, uint64_t* bits);
  /// to[i] += from[i] for n floats.
  void (*add)(const float* from, int64_t n, float* to);
};

/// REQUIRES: isa is one of supported_isas().
const DownKernels& down_kernels(Isa isa);

extern const DownKernels kDownKernelsScalar;
extern const DownKernels kDownKernelsAvx2;
extern const DownKernels kDownKernelsAvx512;
extern const DownKernels kDownKernelsNeon;

// ---- integer sums (kernels/neuron_sums.h) ----------------------------------------------------------------
//
// These functions are for layers that are split between the CPU and a device: each sums its own neurons. All
// ISAs give the same integers, for any order of neurons and any split of columns.

/// The arguments of a call that adds the contributions of n neurons to sums.
struct DownSumsArgs {
  const DownColumns* down = nullptr;
  const int32_t* ids = nullptr;   // [n] ascending
  const float* values = nullptr;  // [n]; where a value is not finite, the contribution is undefined
  int n = 0;
  int64_t column_begin = 0;  // a multiple of kDownStripColumns
  int64_t column_end = 0;    // <= down->n_cols
  int64_t* sums = nullptr;   // [column_end - column_begin]
  float* parts = nullptr;    // [3, column_end - column_begin] scratch, 8-byte aligned
};

/// The arguments of a call that adds a panel's neurons to the sums of many tokens.
struct PanelSumsArgs {
  const float* weights = nullptr;    // [kPanelNeurons, kPanelWidth]; rows that no token wants may have any
                                     // contents
  const uint64_t* wanted = nullptr;  // [n_tokens] bit i: the token wants row i
  const float* values = nullptr;     // values of the wanted rows only: by token, then by row
  int n_tokens = 0;
  int64_t n_columns = 0;    // <= kPanelWidth
  int64_t* sums = nullptr;  // [n_tokens, stride]
  int64_t stride = 0;
};

/// The codes and factors of kPanelNeurons rows, kPanelWidth columns of each, of a type with terms
/// (kernels/quant/neuron_terms.h). codes[j] has two codes for each column: first the code of row 2j, then the
/// code of row 2j + 1. Rows that no token wants may have any contents.
struct TermPanel {
  alignas(
      64) int16_t codes[kPanelNeurons / 2][2 * kPanelWidth];  // [j]: rows 2j and 2j + 1, column for column
  alignas(64) float scale[kPanelWidth / 16][kPanelNeurons], min[kPanelWidth / 16][kPanelNeurons];
};

/// Like PanelSumsArgs, for a TermPanel.
struct TermPanelArgs {
  const TermPanel* panel = nullptr;
  const uint64_t* wanted = nullptr;
  const float* values = nullptr;
  int n_tokens = 0;
  int64_t n_columns = 0;  // a multiple of 32
  int64_t* sums = nullptr;
  int64_t stride = 0;
};

/// One ISA's functions. All are thread-safe and allocate nothing.
struct DownSumsKernels {
  /// Indexed by the DType of down.rows.
  std::array<void (*)(const DownSumsArgs& args), kDTypeCount> add_rows;
  /// For down.coded.
  void (*add_coded)(const DownSumsArgs& args);
  void (*add_panel)(const PanelSumsArgs& args);
  /// Indexed by DType; null for types without terms. fill_terms writes columns [column, column + n) of a row
  /// to row `place` of panels[0], and columns beyond kPanelWidth to row `place` of panels[1]. column and n
  /// are multiples of the type's block size.
  std::array<void (*)(const Matrix& rows, int64_t row, int64_t column, int64_t n, int place,
                      TermPanel* panels),
             kDTypeCount>
      fill_terms;
  std::array<void (*)(const TermPanelArgs& args), kDTypeCount> add_term_panel;
  /// Dequantizes weights [column, column + n) of one neuron. column is a multiple of 32, and out has room for
  /// n rounded up to a multiple of 32.
  void (*dequantize_coded)(const CodedColumns& coded, int64_t neuron, int64_t column, int64_t n, float* out);
};

/// REQUIRES: isa is one of supported_isas().
const DownSumsKernels& down_sums_kernels(Isa isa);

extern const DownSumsKernels kDownSumsScalar;
extern const DownSumsKernels kDownSumsAvx2;
extern const DownSumsKernels kDownSumsAvx512;
extern const DownSumsKernels kDownSumsNeon;

}  // namespace hearth
