// An unfinished file in the store: the bytes downloaded so far, and a state file that describes the complete
// file.
//
// The file is locked while it is open, so that a second process waits. Used by one thread.
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

/// Thrown if a signal such as SIGINT has ended a download. The downloaded bytes are kept.
struct PullInterrupted {};

/// The description of the complete file.
struct PartState {
  std::string source;     // the URL without its query
  std::string validator;  // the server's ETag or Last-Modified, which changes with the file; may be empty
  std::string sha256;     // 64 hexadecimal digits in lower case; empty if unknown
  uint64_t size = 0;      // of the complete file; 0 if unknown
};

std::string part_state_text(const PartState& state);
/// Returns the state, or nullopt if the text is malformed or has impossible values. Does not throw.
std::optional<PartState> parse_part_state(std::string_view text);
/// Returns the path of the state file for `path`.
std::filesystem::path part_state_path(const std::filesystem::path& path);

class PartFile {
 public:
  /// Opens the file, or creates it and its folders, and locks it. Before each retry while another process
  /// holds the lock, calls `wait`, which should sleep and may throw to give up. Throws PullError.
  PartFile(std::filesystem::path path, const std::function<void()>& wait);
  PartFile(PartFile&&) = default;

  const std::filesystem::path& path() const { return path_; }
  int fd() const { return fd_.get(); }
  /// Returns the number of bytes present. A power cut may have damaged them; the checksum detects this.
  uint64_t length() const { return length_; }
  PartState& state() { return state_; }
  const PartState& state() const { return state_; }

  /// Discards all bytes and the state. Used if the file on the server has changed.
  void reset();
  /// Reserves disk space for the whole file. Throws PullError if there is not enough space.
  void reserve(uint64_t size) const;
  /// Appends bytes. Throws PullError if the disk is full or fails; the earlier bytes are kept.
  void append(std::string_view bytes);
  /// Writes the state file. Throws PullError.
  void save() const;
  /// Flushes all bytes to disk. Throws PullError.
  void sync() const;
  /// Moves the file to its final path and removes the state file.
  void move_to(const std::filesystem::path& target);
  /// Deletes the file and the state file.
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

/// Returns the bytes that are free in this folder, or in its nearest existing parent. Returns nullopt if
/// unknown.
std::optional<uint64_t> free_bytes(const std::filesystem::path& folder);

/// Throws PullError, which contains `what`, if the folder's disk has fewer than `bytes` free bytes.
void require_space(const std::filesystem::path& folder, uint64_t bytes, const std::string& what);

}  // namespace hearth
