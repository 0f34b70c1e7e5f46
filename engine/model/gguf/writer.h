// Writes GGUF files of any size: keys, a list of tensors, then the tensors' bytes, streamed in the order of
// the list.
//
// Used by the profiler for synthetic models and for files beside a model. Memory use does not depend on the
// file's size. The bytes go to PATH.part, which is renamed to PATH once it is complete. A Writer that is
// destroyed without commit() leaves no file behind. One thread.
//
//   gguf::Writer writer("thresholds.gguf");
//   writer.key("general.architecture", "llama");
//   writer.tensor("blk.0.threshold", DType::kF32, {64});
//   writer.begin_data();
//   writer.write(std::as_bytes(std::span(thresholds)));
//   writer.commit();
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/model/gguf/gguf_value.h"
#include "kernels/dtype.h"

namespace hearth::gguf {

struct WriterOptions {
  std::string_view magic = "GGUF";  // four bytes; PowerInfer's files have "PWRI"
  uint32_t alignment = 32;          // alignment of tensor data; a power of two, at least 8
  bool replace = false;             // false: refuses to replace an existing file
};

/// Returns GGUF's number for a C++ type. REQUIRES: an arithmetic type of at most eight bytes.
template <typename T>
constexpr ValueType value_type_of() {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8);
  if constexpr (std::is_same_v<T, bool>) return ValueType::kBool;
  if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? ValueType::kFloat32 : ValueType::kFloat64;
  }
  constexpr bool kSigned = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1:
      return kSigned ? ValueType::kInt8 : ValueType::kUint8;
    case 2:
      return kSigned ? ValueType::kInt16 : ValueType::kUint16;
    case 4:
      return kSigned ? ValueType::kInt32 : ValueType::kUint32;
    default:
      return kSigned ? ValueType::kInt64 : ValueType::kUint64;
  }
}

class Writer {
 public:
  /// Opens no file yet. Throws std::runtime_error if `path` exists and options forbid replacing it, or if
  /// `path` is not a plain file.
  explicit Writer(std::filesystem::path path, const WriterOptions& options = {});
  /// Removes the incomplete file unless commit() was called.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Adds a key with a number, boolean or text. REQUIRES, also for the next two functions: begin_data() was
  /// not called yet, and each name is used once.
  template <typename T>
  requires std::is_arithmetic_v<T>
  void key(std::string_view name, T value) {
    begin_key(name, value_type_of<T>());
    append(value);
  }
  void key(std::string_view name, std::string_view text);
  void key(std::string_view name, const char* text) { key(name, std::string_view(text)); }

  template <typename T>
  requires std::is_arithmetic_v<T>
  void array(std::string_view name, std::span<const T> values) {
    begin_array(name, value_type_of<T>(), values.size());
    for (const T value : values) append(value);
  }
  void array(std::string_view name, std::span<const std::string> texts);
  /// Adds a key with a value read from another file.
  void key(std::string_view name, const Value& value);

  /// Announces a tensor. Its bytes follow later, in the order of these calls. shape: dimensions in GGUF's
  /// order, shape[0] contiguous. REQUIRES: begin_data() was not called yet; 1 to 4 nonzero dimensions; rows
  /// consist of whole weight blocks.
  void tensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape);

  /// Returns the size in bytes of the whole file, with everything announced so far.
  uint64_t file_bytes() const;

  /// Creates PATH.part and writes the header, keys and list of tensors. Throws std::runtime_error if the disk
  /// has no room for file_bytes(), if another writer is writing the file, or if the folder is not writable.
  void begin_data();

  /// Writes buffered bytes and returns PATH.part, so that a reader can open it. The file then has its final
  /// size, with zeros where nothing was written yet. REQUIRES: begin_data() was called. Throws
  /// std::runtime_error if writing fails.
  const std::filesystem::path& preview();

  /// Writes the next bytes of the tensors, in spans of any size. Adds the padding between tensors. REQUIRES:
  /// begin_data() was called; no more bytes are written than tensor() announced. Throws std::runtime_error if
  /// writing fails.
  void write(std::span<const std::byte> data);

  /// Flushes the bytes to disk and renames the file. REQUIRES: all announced tensors were written. Throws
  /// std::runtime_error.
  void commit();

 private:
  void begin_key(std::string_view name, ValueType type);
  void begin_array(std::string_view name, ValueType element, size_t count);
  template <typename T>
  void append(T value) {
    const std::byte* bytes = reinterpret_cast<const std::byte*>(&value);
    keys_.insert(keys_.end(), bytes, bytes + sizeof(T));
  }
  /// Returns the header, keys and tensor list, padded to the start of the data.
  std::vector<std::byte> head() const;
  void put(std::span<const std::byte> data);
  void put_padding();
  void flush();
  void write_out(std::span<const std::byte> data);
  [[noreturn]] void fail(const std::string& sentence) const;

  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
    uint64_t offset;  // offset from the start of the data section
    uint64_t bytes;
  };

  std::filesystem::path path_, part_;
  WriterOptions options_;
  std::vector<std::byte> keys_;  // as stored in the file
  uint64_t n_keys_ = 0;
  std::vector<Tensor> tensors_;
  uint64_t data_bytes_ = 0;  // announced bytes, including the padding after the last tensor

  int fd_ = -1;  // open from begin_data to commit
  std::vector<std::byte> buffer_;
  uint64_t n_written_ = 0;  // bytes handed to the system
  size_t next_tensor_ = 0;  // the tensor whose bytes come next
  uint64_t in_tensor_ = 0;  // bytes of next_tensor_ that were written
};

/// Returns the value of general.file_type for a file whose matrices have this type: llama.cpp's number for
/// the type of most matrices. Some programs show it, but none needs it. For types that quantize_row() does
/// not write, returns 1, the number of F16.
uint32_t file_type_of(DType dtype);

}  // namespace hearth::gguf
