// An unfinished file in the store: the bytes downloaded so far, and a second file that describes the complete
// file.
//
// The file is locked while it is open, so that a second program waits. Used by one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/base/sha256.h"
#include "kernels/base/unique_fd.h"

namespace hearth {

/// Thrown when Ctrl-C or another signal has ended a pull. The downloaded part is kept.
struct PullInterrupted {};

/// Describes the complete file.
struct PartState {
  std::string source;     // the requested URL without its query
  std::string validator;  // ETag or Last-Modified, which changes with the file; may be empty
  std::string sha256;     // 64 hexadecimal digits in lower case; empty if unknown
  uint64_t size = 0;      // size of the whole file; 0 if unknown
};

std::string part_state_text(const PartState& state);
/// Returns nullopt if the text is malformed or its values are impossible. Never throws.
std::optional<PartState> parse_part_state(std::string_view text);
/// Returns the path of the state file that belongs to `path`.
std::filesystem::path part_state_path(const std::filesystem::path& path);

class PartFile {
 public:
  /// Opens or creates `path` and its folders, and locks the file. While another process holds the lock, calls
  /// `wait` several times a second; `wait` may throw to give up. Throws PullError.
  PartFile(std::filesystem::path path, const std::function<void()>& wait);
  PartFile(PartFile&&) = default;

  const std::filesystem::path& path() const { return path_; }
  int fd() const { return fd_.get(); }
  /// The number of bytes present. A power cut may have damaged them, which the checksum detects.
  uint64_t length() const { return length_; }
  PartState& state() { return state_; }
  const PartState& state() const { return state_; }

  /// Discards all bytes and the state, for use when the remote file has changed.
  void reset();
  /// Reserves disk space for the whole file. Throws PullError if there is not enough.
  void reserve(uint64_t size) const;
  /// Appends bytes. Throws PullError if the disk is full or fails; the bytes that were present are kept.
  void append(std::string_view bytes);
  /// Writes the state. Throws PullError.
  void save() const;
  /// Flushes all bytes to disk. Throws PullError.
  void sync() const;
  /// Moves the file to its name in the store and removes the state.
  void move_to(const std::filesystem::path& target);
  /// Deletes the file and its state.
  void remove();

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_, state_path_;
  UniqueFd fd_;
  uint64_t length_ = 0;
  PartState state_;
};

/// Adds the first n bytes of an open file to a hash. Calls `look` several times a second; `look` may throw to
/// give up. Throws PullError if the file cannot be read.
void hash_file(int fd, uint64_t n, const std::function<void()>& look, Sha256Stream& hash);

/// Returns the free bytes for a file in this folder, or in its nearest existing parent; nullopt if unknown.
std::optional<uint64_t> free_bytes(const std::filesystem::path& folder);

/// Throws PullError, which names `what`, if the folder's disk has fewer than `bytes` free bytes.
void require_space(const std::filesystem::path& folder, uint64_t bytes, const std::string& what);

}  // namespace hearth
