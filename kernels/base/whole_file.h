// Writes files atomically: a reader sees either the old or the new file, never half of one. The new file is
// written under another name in the same folder, flushed to disk, then renamed.
//
// Used for files that two programs may write at the same time, and for writes that may be interrupted. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace hearth {

/// The users who may read a written file: all users that the umask allows, or only its owner (mode 0600).
enum class Readers : uint8_t { kAll, kOwner };

/// Writes the file `path`, and replaces an existing file. Throws std::runtime_error (one sentence: what
/// failed, why, and what to do) if `path` is not a plain file, its folder is missing or not writable, or the
/// disk is full; an existing file then stays unchanged.
void write_whole_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                      Readers readers = Readers::kAll);
void write_whole_file(const std::filesystem::path& path, std::string_view text);

/// Checks that write_whole_file() can replace or make the file, without doing so: makes an empty file of
/// another name beside it, and removes that again. Throws like write_whole_file().
void check_writable(const std::filesystem::path& path);

/// Reads a plain file of at most `max_bytes`. Throws std::runtime_error (one sentence).
std::string read_whole_file(const std::filesystem::path& path, size_t max_bytes);

/// Locks `folder` from construction to destruction. A program holds this lock while it reads, changes and
/// writes a file in the folder, so that no change by another program is lost. Construction waits while
/// another program holds the lock. If the folder cannot be locked (as on some network file systems), nothing
/// is locked.
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
