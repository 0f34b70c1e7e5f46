// A GGUF model on disk: checked, read-only views of its keys and tensors. Depends on the file format only,
// not on architectures.
//
// The file is mapped, never copied; views stay valid as long as the ModelFile exists. Every count, offset,
// type and shape is checked when the file is opened, so callers need not check bounds again. Opens GGUF v2
// and v3, little-endian, with the magic "GGUF" or PowerInfer's "PWRI". A split model
// (NAME-00001-of-0000N.gguf) is opened by the name of any part. Thread-safe once opened.
//
// The file must not be changed while it is open. If it is truncated, the next access raises SIGBUS, as with
// any mapping; gguf/lost_pages.h handles the signal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/file_error.h"
#include "kernels/dtype.h"

namespace hearth {

namespace gguf {
struct Value;
}

struct TensorInfo {
  std::string_view name;
  DType dtype = DType::kF32;
  int n_dims = 0;
  std::array<int64_t, 4> shape{1, 1, 1,
                               1};  // GGUF order: shape[0] is the contiguous dimension (a matrix's columns)
  const std::byte* data = nullptr;  // in the mapping; aligned to at least 8 bytes (usually 32)
  size_t bytes = 0;
};

class ModelFile {
 public:
  /// Opens and checks the file and, for a split model, all other parts. Throws ModelFileError. Never blocks
  /// on pipes or devices.
  static ModelFile open(const std::filesystem::path& path);

  ModelFile(ModelFile&&) noexcept;
  ModelFile& operator=(ModelFile&&) noexcept;
  ~ModelFile();

  const std::filesystem::path& path() const;
  size_t total_bytes() const;  // bytes of all parts
  bool is_powerinfer() const;  // the magic is "PWRI": FFNs are laid out for PowerInfer, with predictors

  /// Reads the whole file into memory with several threads, so that later accesses do not wait for the disk.
  /// Calls `progress` (may be empty) on the calling thread with the fraction done, which rises to 1. If
  /// `progress` throws, stops and lets the exception propagate. Useful only if the file fits into memory.
  void prefault(const std::function<void(double)>& progress) const;

  /// Keys. If a key is absent, find_* returns nullopt and get_* throws. All throw ModelFileError if the key
  /// has another type. Any GGUF integer type is accepted as an integer if its value fits, and any float type
  /// as a float. A split model has the keys of its first part.
  std::vector<std::string_view> keys() const;  // in file order
  /// Returns the key's type: "uint32", "string", "array of 49,152 string"; empty if absent. For listings and
  /// messages.
  std::string describe_key(std::string_view key) const;
  /// Returns the value as stored in the file, for copying it to another file; null if absent.
  const gguf::Value* find_value(std::string_view key) const;
  bool has_key(std::string_view key) const;
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_float(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  int64_t get_int(std::string_view key) const;
  double get_float(std::string_view key) const;
  std::string_view get_string(std::string_view key) const;
  /// Arrays, converted element by element; nullopt if absent. find_ints also accepts booleans, as 0 and 1.
  std::optional<std::vector<std::string_view>> find_strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> find_ints(std::string_view key) const;
  std::optional<std::vector<float>> find_floats(std::string_view key) const;

  /// Tensors, in file order over all parts.
  std::span<const TensorInfo> tensors() const;
  const TensorInfo* find_tensor(std::string_view name) const;  // null if absent

 private:
  struct Contents;
  explicit ModelFile(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

}  // namespace hearth
