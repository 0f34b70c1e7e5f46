// Lays out GGUF files: header, keys, tensor entries, padding, data.
#include "tests/support/gguf_writer.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace hearth::test {
namespace {

constexpr uint32_t kStringType = 8;

uint64_t align_up(uint64_t n, uint64_t alignment) {
  return alignment == 0 ? n : (n + alignment - 1) / alignment * alignment;
}

}  // namespace

void append_bytes(Bytes& out, const void* data, size_t n) {
  const std::byte* begin = static_cast<const std::byte*>(data);
  out.insert(out.end(), begin, begin + n);
}

void append_string(Bytes& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  append_bytes(out, text.data(), text.size());
}

GgufWriter& GgufWriter::key(std::string_view name, std::string_view text) {
  Bytes payload;
  append_string(payload, text);
  return raw_key(name, kStringType, payload);
}

GgufWriter& GgufWriter::raw_key(std::string_view name, uint32_t value_type,
                                std::span<const std::byte> payload) {
  keys_.push_back({std::string(name), value_type, Bytes(payload.begin(), payload.end())});
  return *this;
}

GgufWriter& GgufWriter::tensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                               std::span<const std::byte> data) {
  int64_t rows = 1;
  for (size_t i = 1; i < shape.size(); ++i) rows *= shape[i];
  if (data.size() != row_bytes(dtype, shape.at(0)) * static_cast<size_t>(rows)) {
    throw std::invalid_argument("tensor " + std::string(name) + ": data and shape differ in size");
  }
  return raw_tensor(name, dtype_info(dtype).gguf_id, std::vector<uint64_t>(shape.begin(), shape.end()), data);
}

GgufWriter& GgufWriter::tensor(std::string_view name, const std::vector<int64_t>& shape,
                               const std::vector<float>& values) {
  return tensor(name, DType::kF32, shape, std::as_bytes(std::span(values)));
}

GgufWriter& GgufWriter::raw_tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& dims,
                                   std::span<const std::byte> data, std::optional<uint64_t> offset) {
  tensors_.push_back({std::string(name), type, dims, Bytes(data.begin(), data.end()), offset});
  return *this;
}

GgufWriter& GgufWriter::alignment(uint32_t bytes) {
  alignment_ = bytes;
  return key("general.alignment", bytes);
}

GgufWriter& GgufWriter::version(uint32_t version) {
  version_ = version;
  return *this;
}

GgufWriter& GgufWriter::magic(std::string_view four_bytes) {
  magic_ = four_bytes;
  return *this;
}

GgufWriter& GgufWriter::claim_keys(uint64_t count) {
  claimed_keys_ = count;
  return *this;
}

GgufWriter& GgufWriter::claim_tensors(uint64_t count) {
  claimed_tensors_ = count;
  return *this;
}

Bytes GgufWriter::bytes() const {
  Bytes out;
  for (const char c : magic_) out.push_back(static_cast<std::byte>(c));
  append_number(out, version_);
  append_number(out, claimed_tensors_.value_or(tensors_.size()));
  append_number(out, claimed_keys_.value_or(keys_.size()));
  for (const Key& key : keys_) {
    append_string(out, key.name);
    append_number(out, key.type);
    out.insert(out.end(), key.payload.begin(), key.payload.end());
  }
  Bytes data;
  for (const Tensor& tensor : tensors_) {
    data.resize(align_up(data.size(), alignment_));
    append_string(out, tensor.name);
    append_number(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) append_number(out, dim);
    append_number(out, tensor.type);
    append_number(out, tensor.offset.value_or(data.size()));
    data.insert(data.end(), tensor.data.begin(), tensor.data.end());
  }
  if (!tensors_.empty()) out.resize(align_up(out.size(), alignment_));
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

void GgufWriter::write(const std::filesystem::path& path) const { write_bytes(path, bytes()); }

std::vector<std::filesystem::path> GgufWriter::write_split(const std::filesystem::path& folder,
                                                           const std::string& name, int n_parts) const {
  std::vector<std::filesystem::path> paths;
  size_t next = 0;
  for (int i = 0; i < n_parts; ++i) {
    GgufWriter part;
    part.version(version_).magic(magic_);
    if (i == 0) part.keys_ = keys_;
    part.key("split.no", static_cast<uint16_t>(i)).key("split.count", static_cast<uint16_t>(n_parts));
    part.key("split.tensors.count", static_cast<int32_t>(tensors_.size()));
    // Only the first part has the key general.alignment; the others keep the default.
    if (i == 0) part.alignment_ = alignment_;
    const size_t end = tensors_.size() * static_cast<size_t>(i + 1) / static_cast<size_t>(n_parts);
    for (; next < end; ++next) part.tensors_.push_back(tensors_[next]);
    char tail[32];
    std::snprintf(tail, sizeof tail, "-%05d-of-%05d.gguf", i + 1, n_parts);
    paths.push_back(folder / (name + tail));
    part.write(paths.back());
  }
  return paths;
}

void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace hearth::test
