// Builds an ISA's table of DownKernels from the loops over S.
#pragma once

#include "kernels/cpu/simd/down_coded.h"
#include "kernels/cpu/simd/down_panel.h"
#include "kernels/cpu/simd/down_rows.h"

namespace hearth {

template <class S>
constexpr DownKernels down_table() {
  return {{add_rows<S, StripF32>,          add_rows<S, StripF16>,         add_rows<S, StripBF16>,
           add_rows<S, StripQ4_0>,         add_rows<S, StripQ4_1>,        add_block_rows<S, BlockQ5_0>,
           add_block_rows<S, BlockQ5_1>,   add_rows<S, StripQ8_0>,        add_block_rows<S, BlockQ2_K>,
           add_block_rows<S, BlockQ3_K>,   add_block_rows<S, BlockQ4_K>,  add_block_rows<S, BlockQ5_K>,
           add_block_rows<S, BlockQ6_K>,   add_rows<S, StripIQ4_NL>,      add_block_rows<S, BlockIQ4_XS>,
           add_block_rows<S, BlockMXFP4>,  add_block_rows<S, BlockNVFP4>, add_block_rows<S, BlockIQ2_XXS>,
           add_block_rows<S, BlockIQ2_XS>, add_block_rows<S, BlockIQ2_S>, add_block_rows<S, BlockIQ3_XXS>,
           add_block_rows<S, BlockIQ3_S>,  add_block_rows<S, BlockIQ1_S>, add_block_rows<S, BlockIQ1_M>,
           add_block_rows<S, BlockTQ1_0>,  add_block_rows<S, BlockTQ2_0>},
          add_coded<S>,
          {dequantize_strips<S, StripF32>,     dequantize_strips<S, StripF16>,
           dequantize_strips<S, StripBF16>,    dequantize_strips<S, StripQ4_0>,
           dequantize_strips<S, StripQ4_1>,    dequantize_blocks<S, BlockQ5_0>,
           dequantize_blocks<S, BlockQ5_1>,    dequantize_strips<S, StripQ8_0>,
           dequantize_blocks<S, BlockQ2_K>,    dequantize_blocks<S, BlockQ3_K>,
           dequantize_blocks<S, BlockQ4_K>,    dequantize_blocks<S, BlockQ5_K>,
           dequantize_blocks<S, BlockQ6_K>,    dequantize_strips<S, StripIQ4_NL>,
           dequantize_blocks<S, BlockIQ4_XS>,  dequantize_blocks<S, BlockMXFP4>,
           dequantize_blocks<S, BlockNVFP4>,   dequantize_blocks<S, BlockIQ2_XXS>,
           dequantize_blocks<S, BlockIQ2_XS>,  dequantize_blocks<S, BlockIQ2_S>,
           dequantize_blocks<S, BlockIQ3_XXS>, dequantize_blocks<S, BlockIQ3_S>,
           dequantize_blocks<S, BlockIQ1_S>,   dequantize_blocks<S, BlockIQ1_M>,
           dequantize_blocks<S, BlockTQ1_0>,   dequantize_blocks<S, BlockTQ2_0>},
          decode_codes<S>,
          decode_factors<S>,
          add_panel<S>,
          select_bits<S>,
          add_sums<S>};
}

}  // namespace hearth
