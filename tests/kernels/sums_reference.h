// Integer sums over neurons by their definition in plain doubles, which CPU and CUDA must match.
#pragma once

#include <random>
#include <vector>

#include "kernels/neuron_sums.h"
#include "kernels/neurons.h"
#include "tests/kernels/weight_rows.h"

namespace hearth::test {

/// A down projection, as rows or as coded columns, and its dequantized weights.
struct DownCase {
  OwnedMatrix matrix;
  std::vector<std::byte> codes, scales;
  DownColumns down;
  std::vector<float> weights;  // [n_neurons, n_cols]
};

/// gap: bytes between rows. For types that are coded, d_ff columns are rounded up to whole blocks.
DownCase down_rows(DType type, int64_t n_neurons, int64_t n_cols, size_t gap, std::mt19937& rng);
DownCase down_coded(DType type, int64_t n_neurons, int64_t n_cols, size_t gap, std::mt19937& rng);

/// Returns a number of columns that suits the type: odd for some types, two blocks for other types.
int64_t some_columns(DType type);

/// Sums on the host.
struct Sums {
  Sums(int n_tokens, int64_t n_cols)
      : sums(static_cast<size_t>(n_tokens * n_cols), 0), poison(static_cast<size_t>(n_tokens), 0) {}
  NeuronSums view() { return {sums.data(), poison.data()}; }
  bool operator==(const Sums&) const = default;
  std::vector<int64_t> sums;
  std::vector<int32_t> poison;
};

/// Adds all listed neurons. values [n_tokens, n_neurons]: indexed by the neuron's number; zero for tokens
/// that do not want the neuron.
void reference_sums(const DownCase& down, const std::vector<int32_t>& ids, const std::vector<float>& values,
                    int n_tokens, Sums& to);

/// Returns finite activations: every tenth is zero, some are tiny and some huge.
std::vector<float> strange_values(int64_t n, std::mt19937& rng);

}  // namespace hearth::test
