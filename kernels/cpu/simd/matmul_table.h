// The table of a vector ISA's matmul loops: every type in the order of DType.
#pragma once

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_float.h"
#include "kernels/cpu/simd/matmul_quantized.h"

namespace hearth {

/// The Simd classes of an ISA that uses one class for all quantized types.
template <class S>
struct OneForAll {
  template <class Block>
  using Many = S;
  template <class Block>
  using One = S;
};

/// Simds names the Simd classes for each block type: Many for many tokens, and One for a single token. F is
/// the class for float weights.
template <class Simds, class F>
constexpr MatmulKernels matmul_table(void (*quantize)(const float*, int64_t, std::byte*)) {
  return {quantize, {multiply_float<F, typename F::LoadF32>,  multiply_float<F, typename F::LoadF16>,
                     multiply_float<F, typename F::LoadBF16>, multiply_quantized<Simds, BlockQ4_0>,
                     multiply_quantized<Simds, BlockQ4_1>,    multiply_quantized<Simds, BlockQ5_0>,
                     multiply_quantized<Simds, BlockQ5_1>,    multiply_quantized<Simds, BlockQ8_0>,
                     multiply_quantized<Simds, BlockQ2_K>,    multiply_quantized<Simds, BlockQ3_K>,
                     multiply_quantized<Simds, BlockQ4_K>,    multiply_quantized<Simds, BlockQ5_K>,
                     multiply_quantized<Simds, BlockQ6_K>,    multiply_quantized<Simds, BlockIQ4_NL>,
                     multiply_quantized<Simds, BlockIQ4_XS>,  multiply_quantized<Simds, BlockMXFP4>,
                     multiply_quantized<Simds, BlockNVFP4>,   multiply_quantized<Simds, BlockIQ2_XXS>,
                     multiply_quantized<Simds, BlockIQ2_XS>,  multiply_quantized<Simds, BlockIQ2_S>,
                     multiply_quantized<Simds, BlockIQ3_XXS>, multiply_quantized<Simds, BlockIQ3_S>,
                     multiply_quantized<Simds, BlockIQ1_S>,   multiply_quantized<Simds, BlockIQ1_M>,
                     multiply_quantized<Simds, BlockTQ1_0>,   multiply_quantized<Simds, BlockTQ2_0>}};
}

}  // namespace hearth
