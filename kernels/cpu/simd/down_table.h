// The table of DownKernels, from the loops over S.
#pragma once

#include "kernels/cpu/simd/down_coded.h"
#include "kernels/cpu/simd/down_panel.h"
#include "kernels/cpu/simd/down_rows.h"

namespace hearth {

template <class S>
constexpr DownKernels down_table() {
  return {{add_rows<S, StripF32>, add_rows<S, StripF16>, add_rows<S, StripBF16>, add_rows<S, StripQ4_0>,
           add_rows<S, StripQ4_1>, add_dequantized<S, DType::kQ5_0, BlockQ5_0>,
           add_dequantized<S, DType::kQ5_1, BlockQ5_1>, add_rows<S, StripQ8_0>,
           add_dequantized<S, DType::kQ2_K, BlockQ2_K>, add_dequantized<S, DType::kQ3_K, BlockQ3_K>,
           add_dequantized<S, DType::kQ4_K, BlockQ4_K>, add_dequantized<S, DType::kQ5_K, BlockQ5_K>,
           add_dequantized<S, DType::kQ6_K, BlockQ6_K>, add_rows<S, StripIQ4_NL>,
           add_dequantized<S, DType::kIQ4_XS, BlockIQ4_XS>},
          add_coded<S>,
          {dequantize_strips<S, StripF32>, dequantize_strips<S, StripF16>, dequantize_strips<S, StripBF16>,
           dequantize_strips<S, StripQ4_0>, dequantize_strips<S, StripQ4_1>,
           dequantize_blocks<S, DType::kQ5_0, BlockQ5_0>, dequantize_blocks<S, DType::kQ5_1, BlockQ5_1>,
           dequantize_strips<S, StripQ8_0>, dequantize_blocks<S, DType::kQ2_K, BlockQ2_K>,
           dequantize_blocks<S, DType::kQ3_K, BlockQ3_K>, dequantize_blocks<S, DType::kQ4_K, BlockQ4_K>,
           dequantize_blocks<S, DType::kQ5_K, BlockQ5_K>, dequantize_blocks<S, DType::kQ6_K, BlockQ6_K>,
           dequantize_strips<S, StripIQ4_NL>, dequantize_blocks<S, DType::kIQ4_XS, BlockIQ4_XS>},
          decode_codes<S>,
          decode_factors<S>,
          add_panel<S>,
          select_bits<S>,
          add_sums<S>};
}

}  // namespace hearth
