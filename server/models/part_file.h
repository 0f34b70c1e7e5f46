// An unfinished file in the store: its bytes, and its state in a second file (server/models/part_state.h).
//
// It is locked while open: a second program waits. One thread writes it; another may read the written bytes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "kernels/base/unique_fd.h"
#include "server/models/part_state.h"

namespace hearth {

/// Thrown when Ctrl-C or a signal ended a pull. The downloaded part is kept.
struct PullInterrupted {};

class PartFile {
 public:
  /// Opens or creates `path` and its folders, and locks it. While another process has the lock, calls `wait`
  /// several times a second; it may throw to give up. Throws PullError.
  PartFile(std::filesystem::path path, const std::function<void()>& wait);
  PartFile(PartFile&&) = default;

  const std::filesystem::path& path() const { return path_; }
  int fd() const { return fd_.get(); }
  PartState& state() { return state_; }
  const PartState& state() const { return state_; }

  /// Discards all bytes, because the remote file has changed.
  void reset();
  /// Sets the size and reserves disk space. Throws PullError if there is not enough.
  void reserve(uint64_t size);
  /// Writes bytes and records them. Throws PullError if the disk is full or fails; recorded bytes stay.
  void write(uint64_t at, std::string_view bytes);
  /// Truncates the file to its size, if the size was not known before.
  void end_at(uint64_t size);
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
  PartState state_;
};

/// The path of the state file of `path`.
std::filesystem::path part_state_path(const std::filesystem::path& path);

/// Free bytes for a file in this folder (or its nearest existing parent); nullopt: unknown.
std::optional<uint64_t> free_bytes(const std::filesystem::path& folder);

/// Throws PullError if the folder's disk has less than the `bytes` needed for `what`.
void require_space(const std::filesystem::path& folder, uint64_t bytes, const std::string& what);

}  // namespace hearth
