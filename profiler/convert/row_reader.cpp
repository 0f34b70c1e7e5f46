// Converts the element types of safetensors to float32.
#include "profiler/convert/row_reader.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/quant/half.h"

namespace hearth::convert {
namespace {

template <typename T>
T element_at(const StoredTensor& tensor, int64_t at) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + static_cast<size_t>(at) * sizeof(T), sizeof(T));
  return value;
}

/// The index in the stored tensor of element i of the row that begins at `first`.
int64_t index_of(const RowView& view, int64_t first, int64_t i) {
  if (view.segments.empty()) return first + i * view.stride;
  const int64_t length = view.n_cols / static_cast<int64_t>(view.segments.size());
  return first + view.segments[static_cast<size_t>(i / length)] + i % length;
}

template <typename T, typename ToFloat>
void read_as(const RowView& view, int64_t first, float* x, ToFloat to_float) {
  for (int64_t i = 0; i < view.n_cols; ++i)
    x[i] = to_float(element_at<T>(*view.source, index_of(view, first, i)));
}

float single_at(const StoredTensor& tensor, int64_t at) {
  switch (tensor.type) {
    case ElementType::kF32:
      return element_at<float>(tensor, at);
    case ElementType::kF16:
      return float_from_half(element_at<uint16_t>(tensor, at));
    default:
      return float_from_bfloat16(element_at<uint16_t>(tensor, at));
  }
}

std::array<float, 256> e4m3_table() {
  std::array<float, 256> table{};
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    if (exponent == 15 && mantissa == 7) value = std::numeric_limits<float>::quiet_NaN();
    table[static_cast<size_t>(bits)] = (bits & 128) != 0 ? -value : value;
  }
  return table;
}

void read_fp8(const RowView& view, int64_t first, float* x) {
  read_as<uint8_t>(view, first, x, float_from_e4m3);
  const StoredTensor& scales = *view.scales;
  if (view.scale_rows == 0) {
    const float scale = single_at(scales, 0);
    for (int64_t i = 0; i < view.n_cols; ++i) x[i] *= scale;
    return;
  }
  const int64_t n_cols = view.source->shape.back();
  const int64_t per_row = (n_cols + view.scale_cols - 1) / view.scale_cols;
  for (int64_t i = 0; i < view.n_cols; ++i) {
    const int64_t at = index_of(view, first, i);
    x[i] *= single_at(scales, at / n_cols / view.scale_rows * per_row + at % n_cols / view.scale_cols);
  }
}

}  // namespace

float float_from_e4m3(uint8_t bits) {
  static const std::array<float, 256> kTable = e4m3_table();
  return kTable[bits];
}

void read_row(const RowView& view, int64_t row, float* x) {
  const int64_t first = view.first_at(row);
  switch (view.source->type) {
    case ElementType::kF32:
      return read_as<float>(view, first, x, [](float value) { return value; });
    case ElementType::kF64:
      return read_as<double>(view, first, x, [](double value) { return static_cast<float>(value); });
    case ElementType::kF16:
      return read_as<uint16_t>(view, first, x, float_from_half);
    case ElementType::kBF16:
      return read_as<uint16_t>(view, first, x, float_from_bfloat16);
    case ElementType::kF8E4M3:
      return read_fp8(view, first, x);
    case ElementType::kU8:
    case ElementType::kOther:
      break;  // the plan has refused tensors of these types
  }
}

void read_mxfp4_row(const RowView& view, int64_t row, std::byte* out) {
  constexpr int64_t kBlockBytes = 16;
  const int64_t n_blocks = view.n_cols / (2 * kBlockBytes);
  // In an MXFP4 view, first_at() returns the index of a row in the stored tensor (all experts' rows in
  // order), not the index of an element. This index differs from `row` if the rows of two tensors alternate
  // in the stored tensor.
  const int64_t first = view.first_at(row) * n_blocks;
  for (int64_t b = 0; b < n_blocks; ++b) {
    const std::byte* in = view.source->bytes.data() + (first + b) * kBlockBytes;
    *out++ = view.scales->bytes[static_cast<size_t>(first + b)];
    // In each byte, the checkpoint packs elements 2i and 2i + 1, but GGUF packs elements i and i + 16.
    const auto nibble = [in](int64_t i) { return in[i / 2] >> (i % 2 * 4) & std::byte{15}; };
    for (int64_t i = 0; i < kBlockBytes; ++i) *out++ = nibble(i) | nibble(i + kBlockBytes) << 4;
  }
}

}  // namespace hearth::convert
