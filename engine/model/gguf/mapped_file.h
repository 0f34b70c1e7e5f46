// Maps one regular file read-only into memory, or throws one sentence with the reason why that is impossible.
// Also reads a mapping's pages ahead of use, and releases them.
//
// Used by ModelFile for each part of a model, and for the small files beside a model. Opening never blocks:
// anything but a regular file (pipe, socket, device, directory) is refused before it is opened. The mapping
// exists as long as the object. Moving the object does not change the addresses.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "engine/model/gguf/lost_pages.h"

namespace hearth::gguf {

class MappedFile {
 public:
  /// Throws ModelFileError if the path is missing, unreadable, empty, or not a regular file; `expected`
  /// describes the expected file in the message.
  static MappedFile open(const std::filesystem::path& path, const char* expected = "a GGUF model file");

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size, const std::filesystem::path& path)
      : data_(data), size_(size), watched_({data, size}, path) {}
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  WatchedMapping watched_;
};

/// Touches every page of `regions`. Calls `progress` (may be empty) on the calling thread with the fraction
/// done, which rises from 0 to 1; the last call gets 1. If `progress` throws, stops and lets the exception
/// propagate. If a region's file is truncated meanwhile, SIGBUS is raised, as by any access (lost_pages.h).
void prefault(const std::vector<std::span<const std::byte>>& regions,
              const std::function<void(double)>& progress);

/// Releases the pages that are wholly inside a mapped region. They are read from the file again when they are
/// used. Meant for weights that were copied, which would otherwise count twice in the process's memory.
void release(std::span<const std::byte> region);

}  // namespace hearth::gguf
