// Reads tensor entries and locates their data. Sizes are computed in 64 bits with overflow checks.
#include "engine/model/gguf/tensor_table.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "kernels/base/file_error.h"

namespace hearth::gguf {
namespace {

constexpr std::string_view kAgain = ": the file is corrupt; download it again";

struct ForeignType {
  uint32_t id;
  std::string_view name;
};

// GGUF types that Hearth cannot compute with. Their names are listed so that the message of a refusal can
// name them.
constexpr std::array<ForeignType, 16> kForeignTypes = {{
    {4, "Q4_2"},
    {5, "Q4_3"},
    {9, "Q8_1"},
    {15, "Q8_K"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"},
    {36, "IQ4_NL_4_4"},
    {37, "IQ4_NL_4_8"},
    {38, "IQ4_NL_8_8"},
    {41, "Q1_0"},
}};

std::string supported_types() {
  std::string names;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (i > 0) names += ", ";
    names += dtype_info(static_cast<DType>(i)).name;
  }
  return names;
}

DType read_dtype(Cursor& cursor) {
  const uint32_t id = cursor.read<uint32_t>();
  if (const std::optional<DType> dtype = dtype_from_gguf(id)) return *dtype;
  std::string found = "has type " + std::to_string(id);
  for (const ForeignType& type : kForeignTypes) {
    if (type.id == id) found += " (" + std::string(type.name) + ')';
  }
  cursor.fail(found + ", which is not supported, expected one of " + supported_types() +
              "; use another quantization of the model");
}

std::string shape_text(const TensorInfo& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.n_dims; ++i) {
    text += (i > 0 ? "," : "") + std::to_string(tensor.shape[static_cast<size_t>(i)]);
  }
  return text + ']';
}

void read_shape(Cursor& cursor, TensorInfo& tensor) {
  const uint32_t n_dims = cursor.read<uint32_t>();
  if (n_dims < 1 || n_dims > tensor.shape.size()) {
    cursor.fail("has " + std::to_string(n_dims) + " dimensions, expected 1 to 4" + std::string(kAgain));
  }
  tensor.n_dims = static_cast<int>(n_dims);
  int64_t elements = 1;
  for (uint32_t i = 0; i < n_dims; ++i) {
    const uint64_t size = cursor.read<uint64_t>();
    if (size == 0 || size > static_cast<uint64_t>(INT64_MAX) ||
        __builtin_mul_overflow(elements, static_cast<int64_t>(size), &elements)) {
      cursor.fail("has size " + file_error::with_commas(size) + " in dimension " + std::to_string(i) +
                  ", expected at least 1 and fewer than 2^63 elements in all" + std::string(kAgain));
    }
    tensor.shape[i] = static_cast<int64_t>(size);
  }
}

// Returns the size in bytes of the tensor's data. The division is exact and the multiplications are checked,
// so the result never wraps.
size_t data_bytes(const Cursor& cursor, const TensorInfo& tensor) {
  const DTypeInfo& type = dtype_info(tensor.dtype);
  if (tensor.shape[0] % type.block_elems != 0) {
    cursor.fail("of type " + std::string(type.name) + " has shape " + shape_text(tensor) +
                ", expected a first size that is a multiple of " + std::to_string(type.block_elems) +
                std::string(kAgain));
  }
  size_t bytes = static_cast<size_t>(tensor.shape[0] / type.block_elems);
  bool overflow = __builtin_mul_overflow(bytes, static_cast<size_t>(type.block_bytes), &bytes);
  for (size_t i = 1; i < tensor.shape.size(); ++i) {
    overflow |= __builtin_mul_overflow(bytes, static_cast<size_t>(tensor.shape[i]), &bytes);
  }
  if (overflow)
    cursor.fail("has shape " + shape_text(tensor) + ", more than 2^64 bytes" + std::string(kAgain));
  return bytes;
}

struct Extent {
  uint64_t begin;  // byte offset in the file
  size_t index;    // index of the tensor
};

// Sets tensor.data if all of the tensor's bytes, from start + offset on, are inside the file. Otherwise
// fails.
Extent place(const Cursor& cursor, std::span<const std::byte> bytes, uint64_t start, uint64_t offset,
             TensorInfo& tensor, size_t index) {
  uint64_t begin = 0;
  uint64_t end = 0;
  if (__builtin_add_overflow(start, offset, &begin) || __builtin_add_overflow(begin, tensor.bytes, &end) ||
      end > bytes.size()) {
    cursor.fail("of " + file_error::with_commas(tensor.bytes) + " bytes lies at byte " +
                file_error::with_commas(offset) + " of the tensor data, but the file has " +
                file_error::with_commas(bytes.size() > start ? bytes.size() - start : 0) +
                " bytes of it: it is truncated or corrupt; download it again");
  }
  tensor.data = bytes.data() + begin;
  return {begin, index};
}

void require_disjoint(const std::string& file, const std::vector<TensorInfo>& tensors,
                      std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i) {
    const TensorInfo& first = tensors[extents[i - 1].index];
    const TensorInfo& second = tensors[extents[i].index];
    if (first.bytes > extents[i].begin - extents[i - 1].begin) {
      file_error::fail(file, "the data of tensors " + file_error::quoted(first.name) + " and " +
                                 file_error::quoted(second.name) +
                                 " overlap, expected data of its own for each" + std::string(kAgain));
    }
  }
}

}  // namespace

std::vector<TensorInfo> read_tensors(Cursor& cursor, std::span<const std::byte> bytes,
                                     const std::string& file, uint64_t count, uint64_t alignment) {
  std::vector<TensorInfo> tensors;  // grows only as entries are read, because `count` is not trusted
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < count; ++i) {
    cursor.enter("tensor", i + 1);
    TensorInfo tensor;
    tensor.name = cursor.read_string();
    if (tensor.name.empty()) cursor.fail("has an empty name" + std::string(kAgain));
    cursor.name_it(tensor.name);
    read_shape(cursor, tensor);
    tensor.dtype = read_dtype(cursor);
    tensor.bytes = data_bytes(cursor, tensor);
    const uint64_t offset = cursor.read<uint64_t>();
    if (offset % alignment != 0) {
      cursor.fail("has its data at offset " + file_error::with_commas(offset) + ", expected a multiple of " +
                  std::to_string(alignment) + std::string(kAgain));
    }
    tensors.push_back(tensor);
    offsets.push_back(offset);
  }
  // Data begins at the next aligned byte after the entries. at() is an offset in a file, so rounding it up
  // cannot overflow.
  const uint64_t start = (cursor.at() + alignment - 1) / alignment * alignment;
  std::vector<Extent> extents;
  for (size_t i = 0; i < tensors.size(); ++i) {
    cursor.enter("tensor", i + 1);
    cursor.name_it(tensors[i].name);
    extents.push_back(place(cursor, bytes, start, offsets[i], tensors[i], i));
  }
  require_disjoint(file, tensors, std::move(extents));
  return tensors;
}

}  // namespace hearth::gguf
