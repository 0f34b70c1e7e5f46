// Random weights of any tensor type, as a file's bytes, for tests of quantized formats and matrix products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/matrix.h"

namespace hearth::test {

/// Return all element types, or only the quantized types.
std::vector<DType> all_types();
std::vector<DType> quantized_types();
/// Return the types of these that the GPU's kernels support.
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

/// Returns activations of about unit size. Every few groups, one activation is forty times as large, as in
/// real models.
std::vector<float> random_activations(int64_t n, std::mt19937& rng);

}  // namespace hearth::test
