// Scales that are not finite are found and named, wherever a type has them.
#include "engine/model/scale_check.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/model_runtime.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/formats.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

constexpr int64_t kCols = 512, kRows = 8;

/// Returns the error for a file with one predictor matrix of that type. All bytes of the matrix are zero,
/// except those that `change` changes.
std::string complaint(DType type, const std::function<void(Bytes&)>& change, size_t bytes_per_tensor,
                      const std::string& name = "blk.0.fc1.weight") {
  Bytes data(row_bytes(type, kCols) * kRows);
  change(data);
  const TempFolder folder;
  GgufWriter().magic("PWRI").tensor(name, type, {kCols, kRows}, data).write(folder / "m.gguf");
  try {
    check_scales(ModelFile::open(folder / "m.gguf"), bytes_per_tensor);
  } catch (const ModelFileError& error) {
    return error.what();
  }
  return {};
}

void put(Bytes& data, size_t at, uint16_t bits) { std::memcpy(data.data() + at, &bits, sizeof bits); }

/// Returns whether dequantizing these bytes gives a weight that is not finite.
bool spoils_weights(DType type, const Bytes& data) {
  std::vector<float> row(kCols);
  for (int64_t r = 0; r < kRows; ++r) {
    dequantize_row(type, data.data() + static_cast<size_t>(r) * row_bytes(type, kCols), kCols, row.data());
    for (const float w : row) {
      if (!std::isfinite(w)) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("scale check: bytes of any type are refused if and only if a weight is not finite") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType type = static_cast<DType>(i);
    INFO(dtype_info(type).name);
    CHECK(complaint(
              type, [](Bytes&) {}, kScaleCheckBytes)
              .empty());
    // An infinity (as a half or the upper half of a float) at every even position of the last block of row 5.
    const size_t block = static_cast<size_t>(dtype_info(type).block_bytes);
    const size_t begin = 6 * row_bytes(type, kCols) - block;
    int n_found = 0;
    for (size_t at = begin; at + 2 <= begin + block; at += 2) {
      const bool upper = type == DType::kF32 || type == DType::kBF16;
      Bytes data(row_bytes(type, kCols) * kRows);
      // Codes are all ones, so that a spoiled scale is not multiplied by zero.
      std::memset(data.data() + begin, 0x11, block);
      put(data, at, upper ? 0x7f80 : 0x7c00);
      const std::string said = complaint(
          type, [&](Bytes& out) { out = data; }, kScaleCheckBytes);
      INFO("byte " << at - begin << ": " << said);
      CHECK(said.empty() != spoils_weights(type, data));
      if (said.empty()) continue;
      ++n_found;
      CHECK_THAT(said, ContainsSubstring("m.gguf: tensor \"blk.0.fc1.weight\" has in row 5, "));
    }
    const bool two = type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ2_K ||
                     type == DType::kQ4_K || type == DType::kQ5_K;
    // These types have no halves, or none in one piece.
    const bool none = type == DType::kMXFP4 || type == DType::kNVFP4 || type == DType::kIQ1_M;
    CHECK(n_found == (two ? 2 : none ? 0 : 1));
  }
}

TEST_CASE("scale check: scales that are not stored as one half") {
  const auto said = [](DType type, std::initializer_list<std::pair<size_t, uint8_t>> bytes) {
    return complaint(
        type,
        [&](Bytes& data) {
          for (const auto& [at, byte] : bytes) data[row_bytes(type, kCols) * 2 + at] = std::byte{byte};
        },
        kScaleCheckBytes);
  };
  constexpr const char* kFound = "has in row 2, block 0, a scale that is not a finite number";
  CHECK_THAT(said(DType::kMXFP4, {{0, 0xff}}), ContainsSubstring(kFound));
  CHECK(said(DType::kMXFP4, {{0, 0xfe}, {1, 0xff}}).empty());
  CHECK(said(DType::kNVFP4, {{0, 0xff}, {1, 0x7f}, {4, 0xff}}).empty());
  // The top nibbles of four words form a half, the lowest first.
  CHECK_THAT(said(DType::kIQ1_M, {{53, 0xc0}, {55, 0x70}}), ContainsSubstring(kFound));
  CHECK(said(DType::kIQ1_M, {{53, 0x80}, {55, 0xff}}).empty());
}

TEST_CASE("scale check: the FFN's matrices and predictors are checked, large ones by sampling") {
  const auto bad_row = [](int64_t row) {
    return
        [row](Bytes& data) { put(data, static_cast<size_t>(row) * row_bytes(DType::kF16, kCols), 0x7e00); };
  };
  for (const char* name :
       {"blk.3.fc2.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.11.ffn_down_t.weight"}) {
    CHECK_THAT(complaint(DType::kF16, bad_row(1), kScaleCheckBytes, name),
               ContainsSubstring(name) && ContainsSubstring("has in row 1, column 0, a weight that is not"));
  }
  CHECK(complaint(DType::kF16, bad_row(1), kScaleCheckBytes, "blk.0.attn_q.weight").empty());
  // There is room for four rows of eight, which are every second.
  CHECK_FALSE(complaint(DType::kF16, bad_row(4), 4 * row_bytes(DType::kF16, kCols)).empty());
  CHECK(complaint(DType::kF16, bad_row(5), 4 * row_bytes(DType::kF16, kCols)).empty());
  CHECK_FALSE(complaint(DType::kF16, bad_row(0), 1).empty());
}

TEST_CASE("scale check: loading checks a model with a relu, and no other") {
  const TempFolder folder;
  LoadOptions options;
  options.path = folder / "m.gguf";
  options.n_threads = 1;
  std::vector<float> predictor(32 * 8, 0.5f);
  predictor[32 * 3 + 7] = std::numeric_limits<float>::quiet_NaN();
  TinyModel().powerinfer().tensor("blk.0.fc1.weight", {32, 8}, predictor).write(options.path);
  CHECK_THROWS_WITH(ModelRuntime::load(options),
                    ContainsSubstring("\"blk.0.fc1.weight\" has in row 3, column 7, a weight that is not"));
  std::vector<float> up(32 * 48, 0.5f);
  up[0] = std::numeric_limits<float>::infinity();
  TinyModel().tensor("blk.0.ffn_up.weight", {32, 48}, up).write(options.path);
  CHECK_NOTHROW(ModelRuntime::load(options));
  options.ffn_activation = "relu";
  CHECK_THROWS_WITH(ModelRuntime::load(options),
                    ContainsSubstring("\"blk.0.ffn_up.weight\" has in row 0, column 0"));
}

}  // namespace hearth::test
