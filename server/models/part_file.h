// An unfinished file in the store: its bytes, and the state beside it (server/models/part_state.h).
//
// Who has it open has it alone: a second program waits. It is written by one thread; another may read what was written.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "kernels/base/unique_fd.h"
#include "server/models/part_state.h"

namespace hearth {

/// Thrown when Ctrl-C or a signal ended a pull. What was loaded is kept.
struct PullInterrupted {};

class PartFile {
 public:
  /// Opens or makes `path` and its folders, and locks it. While another process has it, `wait` is called several times a
  /// second; it may throw to give up. Throws PullError.
  PartFile(std::filesystem::path path, const std::function<void()>& wait);
  PartFile(PartFile&&) = default;

  const std::filesystem::path& path() const { return path_; }
  int fd() const { return fd_.get(); }
  PartState& state() { return state_; }
  const PartState& state() const { return state_; }

  /// Forgets all bytes: the file is another one now.
  void reset();
  /// Sets the size and takes the room for it. Throws PullError if the disk does not have it.
  void reserve(uint64_t size);
  /// Writes bytes and notes that they are there. Throws PullError if the disk is full or fails; what is there stays.
  void write(uint64_t at, std::string_view bytes);
  /// Cuts the file to its size, for one whose size was not known before.
  void end_at(uint64_t size);
  /// Writes the state. Throws PullError.
  void save() const;
  /// Brings all bytes to the disk. Throws PullError.
  void sync() const;
  /// Gives the file its name in the store and removes the state.
  void move_to(const std::filesystem::path& target);
  /// Deletes the file and its state.
  void remove();

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_, state_path_;
  UniqueFd fd_;
  PartState state_;
};

/// The name of the state beside a file.
std::filesystem::path part_state_path(const std::filesystem::path& path);

/// Bytes that a file in this folder (or in the first folder above that exists) could still take; nullopt: unknown.
std::optional<uint64_t> free_bytes(const std::filesystem::path& folder);

/// Throws PullError if the folder's disk has less than `bytes`, which are for `what`.
void require_space(const std::filesystem::path& folder, uint64_t bytes, const std::string& what);

}  // namespace hearth
