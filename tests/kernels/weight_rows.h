// Random weights of any tensor type, as bytes of a file: what the tests of quantised formats and matmuls
// multiply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/matrix.h"

namespace hearth::test {

/// The element types, all or the quantised ones only.
std::vector<DType> all_types();
std::vector<DType> quantized_types();
/// Those of them that the GPU's kernels have.
std::vector<DType> device_types();
std::vector<DType> quantized_device_types();

/// A matrix and the bytes it views, exactly as many as it needs, so that a read past them is caught.
struct OwnedMatrix {
  std::vector<std::byte> bytes;
  Matrix view;
};

/// Quants and packed scales of all bits at random; halves (scales, mins) of size up to about 0.1, of either
/// sign, now and then zero or subnormal. Plain floats lie in [-1, 1].
OwnedMatrix random_matrix(DType type, int64_t n_rows, int64_t n_cols, std::mt19937& rng);

/// Activations of about unit size with, every few groups, one forty times as large, as real models have them.
std::vector<float> random_activations(int64_t n, std::mt19937& rng);

}  // namespace hearth::test
