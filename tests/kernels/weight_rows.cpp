// Makes random weights of any tensor type.
#include "tests/kernels/weight_rows.h"

#include <cstring>

#include "kernels/cuda/ops/device_types.h"
#include "kernels/quant/formats.h"
#include "kernels/quant/half.h"

namespace hearth::test {
namespace {

// The offsets of a block's halves.
std::vector<size_t> half_offsets(DType type) {
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)};
    case DType::kQ3_K:
      return {offsetof(BlockQ3_K, d)};
    case DType::kQ6_K:
      return {offsetof(BlockQ6_K, d)};
    case DType::kTQ1_0:
      return {offsetof(BlockTQ1_0, d)};
    case DType::kTQ2_0:
      return {offsetof(BlockTQ2_0, d)};
    case DType::kMXFP4:
    case DType::kNVFP4:
    case DType::kIQ1_M:
      return {};
    default:
      return {0};
  }
}

uint16_t random_factor(std::mt19937& rng) {
  const uint32_t kind = rng() % 16;
  if (kind == 0) return static_cast<uint16_t>(rng() % 2 << 15);                          // +0 or -0
  if (kind == 1) return static_cast<uint16_t>((rng() % 2 << 15) | (rng() % 0x3ff + 1));  // subnormal
  return half_from_float(std::uniform_real_distribution<float>(-0.1f, 0.1f)(rng));
}

void put(std::byte* at, uint16_t value) { std::memcpy(at, &value, sizeof value); }

// Writes the scales of blocks that do not hold them as halves.
void put_other_scales(DType type, std::byte* block, std::mt19937& rng) {
  if (type == DType::kMXFP4) {
    const uint32_t kind = rng() % 256;  // sometimes 0 or 1: a subnormal
    block[0] = static_cast<std::byte>(kind < 2 ? kind : 110 + kind % 16);
  }
  if (type == DType::kIQ1_M) {
    const uint16_t d = random_factor(rng);
    for (int i = 0; i < 4; ++i) {
      std::byte& top = block[offsetof(BlockIQ1_M, scales) + 2 * static_cast<size_t>(i) + 1];
      top = (top & std::byte{15}) | static_cast<std::byte>((d >> (4 * i) & 15) << 4);
    }
  }
}

void fill_floats(OwnedMatrix& matrix, std::mt19937& rng) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  const int64_t n = matrix.view.n_rows * matrix.view.n_cols;
  for (int64_t i = 0; i < n; ++i) {
    const float value = uniform(rng);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (matrix.view.dtype == DType::kF32) std::memcpy(matrix.bytes.data() + i * 4, &bits, sizeof bits);
    if (matrix.view.dtype == DType::kF16) put(matrix.bytes.data() + i * 2, half_from_float(value));
    if (matrix.view.dtype == DType::kBF16)
      put(matrix.bytes.data() + i * 2, static_cast<uint16_t>(bits >> 16));
  }
}

}  // namespace

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

std::vector<DType> quantized_types() {
  std::vector<DType> types;
  for (DType type : all_types()) {
    if (dtype_info(type).block_elems > 1) types.push_back(type);
  }
  return types;
}

std::vector<DType> device_types() {
  std::vector<DType> types = all_types();
  std::erase_if(types, [](DType type) { return !cuda::device_has(type); });
  return types;
}

std::vector<DType> quantized_device_types() {
  std::vector<DType> types = quantized_types();
  std::erase_if(types, [](DType type) { return !cuda::device_has(type); });
  return types;
}

OwnedMatrix random_matrix(DType type, int64_t n_rows, int64_t n_cols, std::mt19937& rng) {
  OwnedMatrix matrix;
  matrix.bytes.resize(row_bytes(type, n_cols) * static_cast<size_t>(n_rows));
  matrix.view = {matrix.bytes.data(), type, n_rows, n_cols};
  if (dtype_info(type).block_elems == 1) {
    fill_floats(matrix, rng);
    return matrix;
  }
  for (std::byte& byte : matrix.bytes) byte = static_cast<std::byte>(rng());
  const size_t block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
  for (size_t block = 0; block < matrix.bytes.size(); block += block_bytes) {
    for (size_t offset : half_offsets(type)) put(matrix.bytes.data() + block + offset, random_factor(rng));
    put_other_scales(type, matrix.bytes.data() + block, rng);
  }
  return matrix;
}

std::vector<float> random_activations(int64_t n, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = normal(rng) * (i % 101 == 77 ? 40.0f : 1.0f);
  return x;
}

}  // namespace hearth::test
