// Random weights of any tensor type, as a file's bytes, for tests of quantized formats and matrix products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/matrix.h"

namespace hearth::test {

/// The element types, all or the quantized ones only.
std::vector<DType> all_types();
std::vector<DType> quantized_types();
/// Those of them that the GPU's kernels support.
std::vector<DType> device_types();
std::vector<DType> quantized_device_types();

/// A matrix and its bytes, exactly as many as it needs, so that a read beyond them is found.
struct OwnedMatrix {
  std::vector<std::byte> bytes;
  Matrix view;
};

/// Quants and packed scales have random bits. Halves (scales, mins) are up to about 0.1 in size, of either
/// sign, and sometimes zero or subnormal. Plain floats lie in [-1, 1].
OwnedMatrix random_matrix(DType type, int64_t n_rows, int64_t n_cols, std::mt19937& rng);

/// Activations of about unit size; every few groups one is forty times as large, as in real models.
std::vector<float> random_activations(int64_t n, std::mt19937& rng);

}  // namespace hearth::test
