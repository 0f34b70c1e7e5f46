// Reads and checks a safetensors header.
#include "profiler/convert/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/base/file_error.h"
#include "profiler/convert/checkpoint_json.h"

namespace hearth::convert {
namespace {

using nlohmann::json;

// The format's own limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxDimensions = 8;

struct TypeRow {
  std::string_view name;
  ElementType type;
  int bytes;
};
constexpr TypeRow kTypes[] = {
    {"F32", ElementType::kF32, 4}, {"F16", ElementType::kF16, 2},        {"BF16", ElementType::kBF16, 2},
    {"F64", ElementType::kF64, 8}, {"F8_E4M3", ElementType::kF8E4M3, 1}, {"U8", ElementType::kU8, 1},
};
// Types that weights never have. Their sizes are checked nevertheless.
constexpr std::pair<std::string_view, int> kOtherTypes[] = {
    {"I64", 8}, {"U64", 8}, {"I32", 4},  {"U32", 4},     {"I16", 2},
    {"U16", 2}, {"I8", 1},  {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};

[[noreturn]] void refuse(const std::string& label, const std::string& sentence) {
  file_error::fail(label, sentence + "; download the file again");
}

json read_header(std::span<const std::byte> bytes, const std::string& label, uint64_t& data_begin) {
  if (bytes.size() < kLengthBytes)
    refuse(label, "it has " + std::to_string(bytes.size()) + " bytes, too few for safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    refuse(label,
           "its header would have " + file_error::with_commas(length) + " bytes, expected at most " +
               file_error::with_commas(std::min<uint64_t>(kMaxHeaderBytes, bytes.size() - kLengthBytes)) +
               ", so it is cut off or not a safetensors file");
  }
  data_begin = kLengthBytes + length;
  json header = parsed_json({reinterpret_cast<const char*>(bytes.data() + kLengthBytes), length});
  if (!header.is_object()) refuse(label, "its header is not a JSON object, so it is not a safetensors file");
  return header;
}

/// Reads a tensor's shape and returns the product of its dimensions. Returns nullopt if a dimension is not a
/// whole number or the product is too large.
std::optional<uint64_t> read_shape(const json& field, std::vector<int64_t>& shape) {
  constexpr uint64_t kMost = uint64_t{1} << 48;
  if (!field.is_array() || field.size() > kMaxDimensions) return std::nullopt;
  uint64_t product = 1;
  for (const json& dimension : field) {
    if (!dimension.is_number_unsigned()) return std::nullopt;
    const uint64_t n = dimension.get<uint64_t>();
    if (n > kMost || (n > 0 && product > kMost / n)) return std::nullopt;
    product *= n;
    shape.push_back(static_cast<int64_t>(n));
  }
  return product;
}

int bytes_of(const std::string& name, ElementType& type) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) {
      type = row.type;
      return row.bytes;
    }
  }
  for (const auto& [other, n] : kOtherTypes) {
    if (other == name) return n;
  }
  return 0;
}

StoredTensor read_entry(const std::string& name, const json& entry, std::span<const std::byte> data,
                        const std::string& label) {
  const std::string place = "tensor " + file_error::quoted(name);
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets") || !entry["dtype"].is_string()) {
    refuse(label, place + " lacks its type, shape or offsets");
  }
  StoredTensor tensor;
  tensor.name = name;
  tensor.file = &label;
  tensor.type_name = entry["dtype"].get<std::string>();
  const std::optional<uint64_t> n = read_shape(entry["shape"], tensor.shape);
  if (!n) refuse(label, place + " has an impossible shape");
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    refuse(label, place + " has no two offsets");
  }
  const uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  if (begin > end || end > data.size()) {
    refuse(label, place + " ends at byte " + file_error::with_commas(end) + " of " +
                      file_error::with_commas(data.size()) +
                      " bytes of data, so the file is cut off or damaged");
  }
  const int size = bytes_of(tensor.type_name, tensor.type);
  if (size > 0 && *n * static_cast<uint64_t>(size) != end - begin) {
    refuse(label, place + " has " + file_error::with_commas(end - begin) + " bytes, expected " +
                      file_error::with_commas(*n * static_cast<uint64_t>(size)) + " by its shape and type");
  }
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

}  // namespace

int64_t StoredTensor::n_elements() const {
  int64_t n = 1;
  for (const int64_t dimension : shape) n *= dimension;
  return n;
}

int element_bytes(ElementType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.bytes;
  }
  return 0;
}

std::vector<StoredTensor> read_safetensors(std::span<const std::byte> bytes, const std::string& label) {
  uint64_t data_begin = 0;
  const json header = read_header(bytes, label, data_begin);
  const std::span<const std::byte> data = bytes.subspan(data_begin);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") tensors.push_back(read_entry(name, entry, data, label));
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return a.bytes.data() < b.bytes.data();
  });
  const std::byte* end = data.data();
  for (const StoredTensor& tensor : tensors) {
    if (tensor.bytes.empty()) continue;
    if (tensor.bytes.data() < end) {
      refuse(label, "tensor " + file_error::quoted(tensor.name) + " lies partly in the bytes of another one");
    }
    end = tensor.bytes.data() + tensor.bytes.size();
  }
  return tensors;
}

}  // namespace hearth::convert
