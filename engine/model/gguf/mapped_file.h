// One regular file mapped read-only into memory, or a sentence about why it could not be.
//
// Used by ModelFile for each part of a model, and for the small files beside a model. Opening never waits:
// what is not a regular file (pipe, socket, device, directory) is refused before it is opened. The mapping
// lives as long as the object; moving it keeps addresses.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace hearth::gguf {

class MappedFile {
 public:
  /// Throws ModelFileError if the path is missing, unreadable, empty, or no regular file; `expected` says
  /// what should be there.
  static MappedFile open(const std::filesystem::path& path, const char* expected = "a GGUF model file");

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hearth::gguf
