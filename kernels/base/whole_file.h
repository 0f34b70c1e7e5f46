// Writes files atomically: a reader sees either the old or the new file, never half of one. The new file is
// written under another name in the same folder, flushed to disk, then renamed.
//
// For files that two programs may write at the same time, and for writes that may be interrupted. Any thread.
//
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace hearth {

/// Writes the file `path` and replaces an existing one. Throws std::runtime_error (one sentence: what failed,
/// why, and what to do) if `path` is not a plain file, its folder is missing or not writable, or the disk is
/// full; an existing file then stays unchanged.
void write_whole_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_whole_file(const std::filesystem::path& path, std::string_view text);

/// Reads a plain file of at most `max_bytes`. Throws std::runtime_error (one sentence).
std::string read_whole_file(const std::filesystem::path& path, size_t max_bytes);

/// A lock to hold while a file in `folder` is read, changed and written, so that no change of another program
/// is lost. Waits for another holder. If the folder cannot be locked (as on some network file systems), it
/// locks nothing.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

/// The parent folder of `path`; "." if it has none.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace hearth
