// Writes small GGUF files for tests: well-formed ones by default, malformed ones on request.
//
// Used by tests of the model file, tokenizers, model specs and the engine. Not shared by threads.
//
//   GgufWriter writer;
//   writer.key("general.architecture", "llama").key("llama.block_count", uint32_t{2});
//   writer.array("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
//   writer.tensor("output_norm.weight", {64}, std::vector<float>(64, 1.0f));
//   writer.write(folder / "model.gguf");
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/dtype.h"

namespace hearth::test {

using Bytes = std::vector<std::byte>;

/// Appends `n` bytes from `data`.
void append_bytes(Bytes& out, const void* data, size_t n);

/// Appends a number, little-endian.
template <typename T>
void append_number(Bytes& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  append_bytes(out, &value, sizeof(T));
}

/// Appends a GGUF string: its length in eight bytes, then the text.
void append_string(Bytes& out, std::string_view text);

/// GGUF's type number for a C++ type.
template <typename T>
constexpr uint32_t gguf_value_type() {
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, uint8_t>) return 0;
  if constexpr (std::is_same_v<T, int8_t>) return 1;
  if constexpr (std::is_same_v<T, uint16_t>) return 2;
  if constexpr (std::is_same_v<T, int16_t>) return 3;
  if constexpr (std::is_same_v<T, uint32_t>) return 4;
  if constexpr (std::is_same_v<T, int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, uint64_t>) return 10;
  if constexpr (std::is_same_v<T, int64_t>) return 11;
  if constexpr (std::is_same_v<T, double>) return 12;
  if constexpr (std::is_same_v<T, std::string>) return 8;
}

class GgufWriter {
 public:
  /// Adds a scalar or text; the C++ type decides GGUF's type. Returns *this, as do the other builders.
  template <typename T>
  requires std::is_arithmetic_v<T> GgufWriter& key(std::string_view name, T value) {
    Bytes payload;
    append_number(payload, value);
    return raw_key(name, gguf_value_type<T>(), payload);
  }
  GgufWriter& key(std::string_view name, std::string_view text);
  GgufWriter& key(std::string_view name, const char* text) { return key(name, std::string_view(text)); }

  /// Adds an array; vector<bool> works too.
  template <typename T>
  GgufWriter& array(std::string_view name, const std::vector<T>& values) {
    Bytes payload;
    append_number(payload, gguf_value_type<T>());
    append_number(payload, static_cast<uint64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, std::string>) {
        append_string(payload, values[i]);
      } else {
        append_number(payload, static_cast<T>(values[i]));
      }
    }
    return raw_key(name, kArrayType, payload);
  }

  /// Adds a key with any payload and any value type.
  GgufWriter& raw_key(std::string_view name, uint32_t value_type, std::span<const std::byte> payload);

  /// Adds a tensor in GGUF's order of dimensions: shape[0] is contiguous. `data` has row_bytes() bytes per
  /// row.
  GgufWriter& tensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                     std::span<const std::byte> data);
  /// Like tensor() above, for F32 data.
  GgufWriter& tensor(std::string_view name, const std::vector<int64_t>& shape,
                     const std::vector<float>& values);
  /// Adds an entry without checks; `offset` replaces the data's actual offset.
  GgufWriter& raw_tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& dims,
                         std::span<const std::byte> data, std::optional<uint64_t> offset = std::nullopt);

  /// Writes the key general.alignment and aligns data to it.
  GgufWriter& alignment(uint32_t bytes);

  /// Sets the version in the header, which may be wrong.
  GgufWriter& version(uint32_t version);
  GgufWriter& magic(std::string_view four_bytes);
  GgufWriter& claim_keys(uint64_t count);
  GgufWriter& claim_tensors(uint64_t count);

  Bytes bytes() const;
  void write(const std::filesystem::path& path) const;

  /// Splits the file into NAME-00001-of-0000N.gguf and so on in `folder`, as splitting tools do: all keys in
  /// the first part, tensors distributed in order. Returns the paths, first to last.
  std::vector<std::filesystem::path> write_split(const std::filesystem::path& folder, const std::string& name,
                                                 int n_parts) const;

 private:
  static constexpr uint32_t kArrayType = 9;
  struct Key {
    std::string name;
    uint32_t type;
    Bytes payload;
  };
  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<uint64_t> dims;
    Bytes data;
    std::optional<uint64_t> offset;
  };
  std::string magic_ = "GGUF";
  uint32_t version_ = 3;
  uint32_t alignment_ = 32;
  std::optional<uint64_t> claimed_keys_, claimed_tensors_;
  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
};

/// Writes a file with these bytes, replacing an existing one. Throws std::runtime_error.
void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace hearth::test
