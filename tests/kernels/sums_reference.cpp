// Computes integer sums over neurons by their definition.
#include "tests/kernels/sums_reference.h"

#include <cmath>
#include <cstring>

#include "kernels/quant/coded_columns.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/neuron_terms.h"

namespace hearth::test {

DownCase down_rows(DType type, int64_t n_neurons, int64_t n_cols, size_t gap, std::mt19937& rng) {
  DownCase down;
  const OwnedMatrix packed = random_matrix(type, n_neurons, n_cols, rng);
  const size_t row = row_bytes(type, n_cols), stride = row + gap;
  down.matrix.bytes.resize(n_neurons == 0 ? 0 : stride * static_cast<size_t>(n_neurons) - gap);
  down.matrix.view = packed.view;
  down.matrix.view.data = down.matrix.bytes.data();
  down.matrix.view.row_stride = stride;
  down.weights.resize(static_cast<size_t>(n_neurons * n_cols));
  for (int64_t j = 0; j < n_neurons; ++j) {
    std::memcpy(down.matrix.bytes.data() + static_cast<size_t>(j) * stride, packed.view.row(j), row);
    dequantize_row(type, packed.view.row(j), n_cols, down.weights.data() + j * n_cols);
  }
  down.down.rows = down.matrix.view;
  down.down.n_neurons = n_neurons;
  down.down.n_cols = n_cols;
  return down;
}

DownCase down_coded(DType type, int64_t n_neurons, int64_t n_cols, size_t gap, std::mt19937& rng) {
  DownCase down;
  const int64_t block = dtype_info(type).block_elems;
  n_neurons = (n_neurons + block - 1) / block * block;
  down.matrix = random_matrix(type, n_cols, n_neurons, rng);
  const size_t stride = column_codes_bytes(type, n_cols) + gap;
  down.codes.resize(stride * static_cast<size_t>(n_neurons));
  down.scales.resize(column_scales_bytes(down.matrix.view));
  down.down = turn_down_projection(down.matrix.view, nullptr, down.codes.data(), stride, down.scales.data());
  down.weights.resize(static_cast<size_t>(n_neurons * n_cols));
  std::vector<float> row(static_cast<size_t>(n_neurons));
  for (int64_t c = 0; c < n_cols; ++c) {
    dequantize_row(type, down.matrix.view.row(c), n_neurons, row.data());
    for (int64_t j = 0; j < n_neurons; ++j) {
      down.weights[static_cast<size_t>(j * n_cols + c)] = row[static_cast<size_t>(j)];
    }
  }
  return down;
}

int64_t some_columns(DType type) {
  const int block = dtype_info(type).block_elems;
  return block == 1 ? 163 : block == 32 ? 288 : 512;
}

namespace {

/// The contribution of one weight, by the definition in kernels/neuron_sums.h.
int64_t weight_units(float value, float weight) {
  double product = double{value} * weight;
  if (!(product <= 0x1p20)) product = 0x1p20;
  if (product < -0x1p20) product = -0x1p20;
  return static_cast<int64_t>(std::nearbyint(product * 0x1p36));
}

/// A row's contributions by the definition in kernels/quant/neuron_terms.h, added to `to`.
template <class Block>
void add_terms(const DownCase& down, int32_t id, float value, int64_t* to) {
  const float* weights = down.weights.data() + id * down.down.n_cols;
  for (int64_t b = 0; b < down.down.n_cols / Block::kElems; ++b) {
    Decoded<Block> block;
    decode_block<Block>(down.down.rows.row(id) + static_cast<size_t>(b) * sizeof(Block), block);
    for (int i = 0; i < Block::kElems; ++i) {
      const float scaled = value * std::ldexp(1.0f, TermsOf<Block>::kExponent);
      const float t = scaled * block.scale[i / Block::kGroup];
      const float t2 = Block::kHasMin ? scaled * block.min[i / Block::kGroup] : 0.0f;
      const int64_t c = b * Block::kElems + i;
      if (std::abs(t) < 0x1p30f && std::abs(t2) < 0x1p30f) {
        const auto whole = static_cast<int64_t>(std::nearbyint(double{t})) * block.q[i] +
                           static_cast<int64_t>(std::nearbyint(double{t2}));
        to[c] += whole * (int64_t{1} << (36 - TermsOf<Block>::kExponent));
      } else {
        to[c] += weight_units(value, weights[c]);
      }
    }
  }
}

}  // namespace

void reference_sums(const DownCase& down, const std::vector<int32_t>& ids, const std::vector<float>& values,
                    int n_tokens, Sums& to) {
  const int64_t n_cols = down.down.n_cols;
  for (int t = 0; t < n_tokens; ++t) {
    for (int32_t id : ids) {
      const float value = values[static_cast<size_t>(t * down.down.n_neurons + id)];
      if (value == 0.0f) continue;
      if (!std::isfinite(value)) to.poison[static_cast<size_t>(t)] = 1;
      int64_t* const sums = to.sums.data() + t * n_cols;
      bool has_terms = false;
      if (down.down.rows) {
        visit_block_type(down.down.rows.dtype, [&]<class Block>() {
          if constexpr (kHasTerms<Block>) {
            has_terms = true;
            add_terms<Block>(down, id, value, sums);
          }
        });
      }
      for (int64_t c = 0; c < n_cols && !has_terms; ++c) {
        sums[c] += weight_units(value, down.weights[static_cast<size_t>(id * n_cols + c)]);
      }
    }
  }
}

std::vector<float> strange_values(int64_t n, std::mt19937& rng) {
  std::vector<float> values = random_activations(n, rng);
  for (float& value : values) {
    switch (rng() % 40) {
      case 0:
      case 1:
      case 2:
      case 3:
        value = 0.0f;
        break;
      case 4:
        value *= 0x1p-110f;
        break;
      case 5:
        value *= 0x1p-145f;  // subnormal
        break;
      case 6:
        value *= 0x1p14f;  // products around 2^15
        break;
      case 7:
        value *= 0x1p25f;
        break;
      case 8:
        value *= 0x1p100f;
        break;
      case 9:
        value *= 0x1p-30f;
        break;
      default:
        break;
    }
  }
  return values;
}

}  // namespace hearth::test
