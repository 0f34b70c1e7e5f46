// Chooses an ISA's tables of inner loops. Unlike the files with the tables, this file is compiled for any
// processor of the family.
#include "kernels/cpu/isa/down_kernels.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/isa/vector_kernels.h"

namespace hearth {
namespace {

/// The kernel tables of one ISA. If the build does not contain an ISA, its entry has the scalar tables.
struct Tables {
  const MatmulKernels& matmul;
  const MatmulKernels& matmul_bytes;  // for 8-bit activations
  const VectorKernels& vector;
  const DownKernels& down;
  const DownSumsKernels& down_sums;
};

Tables tables_of(Isa isa) {
  switch (isa) {
// HEARTH_WITH_X is defined if the build has the loops of ISA X, which depends on HEARTH_ISAS and, for AMX, on
// the compiler.
#if defined(HEARTH_WITH_AMX)
    case Isa::kAmx:
      return {kMatmulKernelsAmx, kMatmulBytesAmx, kVectorKernelsAvx512, kDownKernelsAvx512, kDownSumsAvx512};
#endif
#if defined(HEARTH_WITH_AVX512)
    case Isa::kAvx512Vnni:
      return {kMatmulKernelsAvx512, kMatmulBytesAvx512, kVectorKernelsAvx512, kDownKernelsAvx512,
              kDownSumsAvx512};
#endif
#if defined(HEARTH_WITH_AVX_VNNI)
    case Isa::kAvxVnni:
      return {kMatmulKernelsAvxVnni, kMatmulBytesAvxVnni, kVectorKernelsAvx2, kDownKernelsAvx2,
              kDownSumsAvx2};
#endif
#if defined(HEARTH_WITH_AVX2)
    case Isa::kAvx2:
      return {kMatmulKernelsAvx2, kMatmulBytesAvx2, kVectorKernelsAvx2, kDownKernelsAvx2, kDownSumsAvx2};
#endif
#if defined(HEARTH_WITH_NEON_I8MM)
    case Isa::kNeonI8mm:
      return {kMatmulKernelsNeonI8mm, kMatmulBytesNeonI8mm, kVectorKernelsNeon, kDownKernelsNeon,
              kDownSumsNeon};
#endif
#if defined(HEARTH_WITH_NEON_DOTPROD)
    case Isa::kNeonDotprod:
      return {kMatmulKernelsNeonDotprod, kMatmulBytesNeonDotprod, kVectorKernelsNeon, kDownKernelsNeon,
              kDownSumsNeon};
#endif
#if defined(HEARTH_WITH_NEON)
    case Isa::kNeon:
      return {kMatmulKernelsNeon, kMatmulBytesNeon, kVectorKernelsNeon, kDownKernelsNeon, kDownSumsNeon};
#endif
    default:
      return {kMatmulKernelsScalar, kMatmulBytesScalar, kVectorKernelsScalar, kDownKernelsScalar,
              kDownSumsScalar};
  }
}

}  // namespace

bool is_built(Isa isa) { return isa == Isa::kScalar || &tables_of(isa).matmul != &kMatmulKernelsScalar; }

const MatmulKernels& matmul_kernels(Isa isa, ActivationBits bits) {
  const Tables tables = tables_of(isa);
  return bits == ActivationBits::k8 ? tables.matmul_bytes : tables.matmul;
}
const VectorKernels& vector_kernels(Isa isa) { return tables_of(isa).vector; }
const DownKernels& down_kernels(Isa isa) { return tables_of(isa).down; }
const DownSumsKernels& down_sums_kernels(Isa isa) { return tables_of(isa).down_sums; }

}  // namespace hearth
