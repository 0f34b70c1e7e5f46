// The choice of a VectorKernels table. Compiled for any processor, unlike the tables.
#include "kernels/cpu/vector_kernels.h"

namespace hearth {

const VectorKernels& vector_kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni:
      return kVectorKernelsAvx512;
    case Isa::kAvx2:
      return kVectorKernelsAvx2;
    case Isa::kScalar:
      break;
  }
  return kVectorKernelsScalar;
}

}  // namespace hearth
