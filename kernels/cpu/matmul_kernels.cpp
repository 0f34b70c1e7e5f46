// Picks the matmul table of an ISA. See matmul_kernels.h.
#include "kernels/cpu/matmul_kernels.h"

#include "kernels/cpu/activation_row.h"
#include "kernels/cpu/matmul_tables.h"

namespace hearth {

bool uses_quantized_activations(DType type) { return dtype_info(type).block_elems > 1; }

size_t activation_row_bytes(int64_t n_cols) { return activation_row_size(n_cols); }

const MatmulKernels& matmul_kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni:
      return kAvx512Matmul;
    case Isa::kAvx2:
      return kAvx2Matmul;
    case Isa::kScalar:
      break;
  }
  return kScalarMatmul;
}

}  // namespace hearth
