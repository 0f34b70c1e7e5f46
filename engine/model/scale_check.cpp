// See the header.
#include "engine/model/scale_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "kernels/base/file_error.h"
#include "kernels/quant/formats.h"

namespace hearth {
namespace {

constexpr uint16_t kHalfExponent = 0x7c00;   // all bits set: infinity or NaN
constexpr uint16_t kFloatExponent = 0x7f80;  // the exponent bits in a float's upper half, and in a bfloat16
constexpr uint16_t kPowerOfTwo = 0xff;       // all bits set: NaN, in a scale that is one exponent byte

/// Byte offsets of the scale and the min in a type's weight block. Each is a 16-bit number.
struct Places {
  uint16_t exponent = kHalfExponent;
  size_t first = 0;
  size_t second = 0;  // equal to `first` if there is only one number
};

Places places_of(DType type) {
  switch (type) {
    case DType::kF32:
      return {kFloatExponent, 2, 2};
    case DType::kBF16:
      return {kFloatExponent, 0, 0};
    case DType::kF16:
      return {};
    case DType::kQ4_0:
      return {kHalfExponent, offsetof(BlockQ4_0, d), offsetof(BlockQ4_0, d)};
    case DType::kQ4_1:
      return {kHalfExponent, offsetof(BlockQ4_1, d), offsetof(BlockQ4_1, m)};
    case DType::kQ5_0:
      return {kHalfExponent, offsetof(BlockQ5_0, d), offsetof(BlockQ5_0, d)};
    case DType::kQ5_1:
      return {kHalfExponent, offsetof(BlockQ5_1, d), offsetof(BlockQ5_1, m)};
    case DType::kQ8_0:
      return {kHalfExponent, offsetof(BlockQ8_0, d), offsetof(BlockQ8_0, d)};
    case DType::kQ2_K:
      return {kHalfExponent, offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)};
    case DType::kQ3_K:
      return {kHalfExponent, offsetof(BlockQ3_K, d), offsetof(BlockQ3_K, d)};
    case DType::kQ4_K:
      return {kHalfExponent, offsetof(BlockQ4_K, d), offsetof(BlockQ4_K, dmin)};
    case DType::kQ5_K:
      return {kHalfExponent, offsetof(BlockQ5_K, d), offsetof(BlockQ5_K, dmin)};
    case DType::kQ6_K:
      return {kHalfExponent, offsetof(BlockQ6_K, d), offsetof(BlockQ6_K, d)};
    case DType::kIQ4_NL:
      return {kHalfExponent, offsetof(BlockIQ4_NL, d), offsetof(BlockIQ4_NL, d)};
    case DType::kIQ4_XS:
      return {kHalfExponent, offsetof(BlockIQ4_XS, d), offsetof(BlockIQ4_XS, d)};
    case DType::kMXFP4:
      return {kPowerOfTwo, offsetof(BlockMXFP4, e), offsetof(BlockMXFP4, e)};
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ1_S:
      return {};
    case DType::kTQ1_0:
      return {kHalfExponent, offsetof(BlockTQ1_0, d), offsetof(BlockTQ1_0, d)};
    case DType::kTQ2_0:
      return {kHalfExponent, offsetof(BlockTQ2_0, d), offsetof(BlockTQ2_0, d)};
    case DType::kNVFP4:
    case DType::kIQ1_M:
      return {};  // see has_bad_scale()
  }
  return {};  // every type is above
}

bool is_finite(const std::byte* at, uint16_t exponent) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return (bits & exponent) != exponent;
}

bool has_bad_scale(DType type, const std::byte* block, const Places& places) {
  if (type == DType::kNVFP4) return false;  // in NVFP4, no scale is infinite, and NaN means 0
  if (type == DType::kIQ1_M) {
    BlockIQ1_M scattered;
    std::memcpy(&scattered, block, sizeof scattered);
    return (scattered.d() & kHalfExponent) == kHalfExponent;
  }
  return !is_finite(block + places.first, places.exponent) ||
         !is_finite(block + places.second, places.exponent);
}

/// Returns the index of the first weight block in a row whose scale or min is not finite; -1 if there is
/// none.
int64_t bad_block(DType type, const std::byte* row, int64_t n_blocks) {
  const Places places = places_of(type);
  const auto block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
  for (int64_t b = 0; b < n_blocks; ++b) {
    if (has_bad_scale(type, row + static_cast<size_t>(b) * block_bytes, places)) return b;
  }
  return -1;
}

void check_tensor(const std::string& file, const TensorInfo& tensor, size_t most_bytes) {
  const DTypeInfo& type = dtype_info(tensor.dtype);
  const int64_t n_blocks = tensor.shape[0] / type.block_elems;
  const int64_t n_rows = tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
  const size_t row = row_bytes(tensor.dtype, tensor.shape[0]);
  const int64_t most_rows = std::max<int64_t>(1, static_cast<int64_t>(most_bytes / row));
  const int64_t step = (n_rows + most_rows - 1) / most_rows;
  for (int64_t r = 0; r < n_rows; r += step) {
    const int64_t bad = bad_block(tensor.dtype, tensor.data + static_cast<size_t>(r) * row, n_blocks);
    if (bad < 0) continue;
    const bool plain = type.block_elems == 1;
    file_error::fail(file, "tensor " + file_error::quoted(tensor.name) + " has in row " + std::to_string(r) +
                               (plain ? ", column " : ", block ") + std::to_string(bad) +
                               (plain ? ", a weight" : ", a scale") +
                               " that is not a finite number, expected one; the file is damaged or was badly "
                               "converted: convert or download it again");
  }
}

/// Returns whether the sparse FFN reads the tensor. Examples are "blk.3.ffn_up.weight" and
/// "blk.3.fc1.weight".
bool is_of_ffn(const TensorInfo& tensor) {
  if (tensor.n_dims < 2) return false;
  const std::string_view name = tensor.name;
  return name.find(".ffn_") != std::string_view::npos || name.find(".fc1.") != std::string_view::npos ||
         name.find(".fc2.") != std::string_view::npos;
}

}  // namespace

void check_scales(const ModelFile& file, size_t bytes_per_tensor) {
  const std::string label = file_error::file_label(file.path().string());
  for (const TensorInfo& tensor : file.tensors()) {
    if (is_of_ffn(tensor)) check_tensor(label, tensor, bytes_per_tensor);
  }
}

}  // namespace hearth
