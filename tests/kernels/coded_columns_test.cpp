// Coded down columns are the source's weights, bit for bit, and the sparse FFN sums them by their definition
// on every ISA and in every way.
#include <cstring>

#include "kernels/quant/coded_columns.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/half.h"
#include "tests/kernels/neuron_layer.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// A random down matrix and its transposed form.
struct Coded {
  OwnedMatrix source;
  std::vector<std::byte> codes, scales;
  DownColumns down;
};

Coded random_coded(DType type, int64_t d_model, int64_t d_ff, size_t gap, std::mt19937& rng) {
  Coded coded;
  coded.source = random_matrix(type, d_model, d_ff, rng);
  const Matrix& matrix = coded.source.view;
  const size_t stride = column_codes_bytes(type, d_model) + gap;
  coded.codes.resize(stride * static_cast<size_t>(d_ff));
  coded.scales.resize(column_scales_bytes(matrix));
  for (int64_t begin = 0; begin < d_ff; begin += kTurnedNeurons) {
    turn_neurons(matrix, begin, std::min(begin + kTurnedNeurons, d_ff), coded.codes.data(), stride,
                 coded.scales.data());
  }
  coded.down = turned_columns(matrix, nullptr, coded.codes.data(), stride, coded.scales.data());
  return coded;
}

float stored_float(const std::byte* table, bool halves, size_t at) {
  if (halves) {
    uint16_t half;
    std::memcpy(&half, table + 2 * at, sizeof half);
    return float_from_half(half);
  }
  float value;
  std::memcpy(&value, table + 4 * at, sizeof value);
  return value;
}

/// One weight by the formula of CodedColumns.
float weight(const Coded& coded, int64_t j, int64_t c) {
  const CodedColumns& view = coded.down.coded;
  const std::byte* codes = view.codes + static_cast<size_t>(j) * view.stride;
  const int byte = static_cast<int>(view.bits == 8 ? codes[c] : codes[c / 32 * 16 + c % 16]);
  const int code =
      view.bits == 8 ? static_cast<int8_t>(byte) : (c % 32 < 16 ? byte & 15 : byte >> 4) - view.offset;
  const size_t at = static_cast<size_t>(j / view.group * view.n_cols_padded + c);
  const float scaled = stored_float(view.scales, view.half_scales, at) * static_cast<float>(code);
  return view.mins == nullptr ? scaled : scaled + stored_float(view.mins, view.half_scales, at);
}

}  // namespace

TEST_CASE("coded columns have the source's weights, bit for bit") {
  std::mt19937 rng(1);
  for (DType type : quantized_types()) {
    for (int64_t d_model : {1, 31, 128, 200}) {
      const int64_t block = dtype_info(type).block_elems;
      for (int64_t d_ff : {block, block == 256 ? 512 : 5 * 64 + block % 64}) {
        const Coded coded = random_coded(type, d_model, d_ff, d_model == 200 ? 37 : 0, rng);
        std::vector<float> row(static_cast<size_t>(d_ff));
        for (int64_t c = 0; c < d_model; ++c) {
          dequantize_row(type, coded.source.view.row(c), d_ff, row.data());
          for (int64_t j = 0; j < d_ff; ++j) {
            const float found = weight(coded, j, c), expected = row[static_cast<size_t>(j)];
            INFO(dtype_info(type).name << " column " << c << " neuron " << j);
            REQUIRE(std::memcmp(&found, &expected, sizeof found) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("plain floats are transposed unchanged") {
  std::mt19937 rng(2);
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    const int64_t d_model = 45, d_ff = 301;
    const Coded turned = random_coded(type, d_model, d_ff, 6, rng);
    const size_t element = row_bytes(type, 1);
    REQUIRE(turned.down.rows.dtype == type);
    for (size_t c = 0; c < 45; ++c) {
      for (size_t j = 0; j < 301; ++j) {
        REQUIRE(std::memcmp(turned.down.rows.row(static_cast<int64_t>(j)) + c * element,
                            turned.source.view.row(static_cast<int64_t>(c)) + j * element, element) == 0);
      }
    }
  }
}

TEST_CASE("transposing a whole projection gives the same bytes as transposing it in ranges") {
  std::mt19937 rng(4);
  const Coded ranges = random_coded(DType::kQ4_K, 70, 1024, 0, rng);
  std::vector<std::byte> codes(ranges.codes.size()), scales(ranges.scales.size());
  const DownColumns down = turn_down_projection(ranges.source.view, nullptr, codes.data(),
                                                ranges.down.coded.stride, scales.data());
  CHECK(codes == ranges.codes);
  CHECK(scales == ranges.scales);
  CHECK(down.coded.bits == 4);
}

TEST_CASE("sums over coded columns have the bits of their definition on every ISA and every way") {
  std::mt19937 rng(3);
  for (DType type : quantized_types()) {
    for (int64_t d_model : {200, 608}) {
      const int64_t d_ff = dtype_info(type).block_elems == 32 ? 1120 : 1280;
      const Coded coded = random_coded(type, d_model, d_ff, 5, rng);
      const int n_tokens = 5;
      const std::vector<float> values = random_activations(n_tokens * d_ff, rng);
      for (double share : {0.01, 0.25, 1.0}) {
        const NeuronSet set = random_set(n_tokens, d_ff, share, rng);
        std::vector<float> expected(static_cast<size_t>(n_tokens * d_model), 1.0f);
        reference_down(coded.down, values.data(), n_tokens, set, expected.data());
        for (Isa isa : supported_isas()) {
          CpuBackend backend(2, isa);
          backend.reserve({n_tokens, 1280, 1, 16});
          for (int few_tokens : {0, 8}) {
            backend.choose_neuron_paths(few_tokens, CpuBackend::RowChoice::kMeasured);
            std::vector<float> out(expected.size(), 1.0f);
            NeuronCounts counts;
            backend.down_neurons(coded.down, values.data(), n_tokens, set, out.data(), counts);
            INFO(dtype_info(type).name << " " << isa_name(isa) << " d_model " << d_model << " share " << share
                                       << " few " << few_tokens);
            REQUIRE(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
          }
        }
      }
    }
  }
}

}  // namespace hearth::test
