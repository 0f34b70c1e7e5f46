// Chooses an ISA's tables of inner loops. This file is compiled for any processor, unlike the tables.
#include "kernels/cpu/down_kernels.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/vector_kernels.h"

namespace hearth {
namespace {

template <class Table>
const Table& of_isa(Isa isa, const Table& avx512, const Table& avx2, const Table& scalar) {
  switch (isa) {
    case Isa::kAvx512Vnni:
      return avx512;
    case Isa::kAvx2:
      return avx2;
    case Isa::kScalar:
      break;
  }
  return scalar;
}

}  // namespace

const MatmulKernels& matmul_kernels(Isa isa) {
  return of_isa(isa, kMatmulKernelsAvx512, kMatmulKernelsAvx2, kMatmulKernelsScalar);
}
const VectorKernels& vector_kernels(Isa isa) {
  return of_isa(isa, kVectorKernelsAvx512, kVectorKernelsAvx2, kVectorKernelsScalar);
}
const DownKernels& down_kernels(Isa isa) {
  return of_isa(isa, kDownKernelsAvx512, kDownKernelsAvx2, kDownKernelsScalar);
}
const DownSumsKernels& down_sums_kernels(Isa isa) {
  return of_isa(isa, kDownSumsAvx512, kDownSumsAvx2, kDownSumsScalar);
}

}  // namespace hearth
