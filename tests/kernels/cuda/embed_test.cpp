// Embeddings on CUDA: they have dequantize_row()'s bits.
#include "kernels/quant/dequantize.h"

#include <cstring>

#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/cuda/device_product.h"
#include "tests/kernels/weight_rows.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

std::vector<int64_t> table_widths(DType type) {
  const int64_t block = dtype_info(type).block_elems;
  if (block == 1) return {1, 31, 256, 300};
  if (block == 32) return {32, 576, 1024, 1056, 4128};
  return {256, 1024, 1280, 4352};
}

std::vector<float> on_cpu(const Matrix& weight, int64_t row) {
  std::vector<float> values(static_cast<size_t>(weight.n_cols));
  dequantize_row(weight.dtype, weight.row(row), weight.n_cols, values.data());
  return values;
}

}  // namespace

TEST_CASE("CUDA's embeddings have the CPU's bits") {
  const TestStream stream;
  std::mt19937 rng(1);
  const std::vector<int32_t> tokens = {4, 0, 4, 6, 1};
  for (DType type : device_types()) {
    for (int64_t n_cols : table_widths(type)) {
      const OwnedMatrix table = random_matrix(type, 7, n_cols, rng);
      for_each_schedule([&] {
        for (int64_t n : {0, 1, 5}) {
          for (size_t offset : {0, 2}) {
            INFO(dtype_info(type).name << " " << n_cols << " columns, " << n << " tokens, offset " << offset);
            const DeviceMatrix matrix(table.view, offset);
            const DeviceArray<int32_t> ids(std::vector<int32_t>(tokens.begin(), tokens.begin() + n));
            const DeviceArray<float> out(static_cast<size_t>(n * n_cols));
            cuda::embed(matrix.view(), ids.data(), n, out.data(), stream);
            std::vector<float> expected;
            for (int64_t i = 0; i < n; ++i) {
              const std::vector<float> row = on_cpu(table.view, tokens[static_cast<size_t>(i)]);
              expected.insert(expected.end(), row.begin(), row.end());
            }
            REQUIRE(different(out.read(stream), expected) == 0);
          }
        }
      });
    }
  }
}

}  // namespace hearth::test
