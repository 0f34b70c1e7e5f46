// Survives the loss of pages of a mapped model file, when the file is truncated or its disk cannot read it.
// The system then raises SIGBUS, which ends a process without a message.
//
// With survive_lost_pages() in effect, the rest of the mapping from the lost page on becomes zeros, the
// thread continues, and the loss is recorded. Code that computes with the file's bytes must call lost_file()
// after reading them and before using the results; ModelRuntime does so after each step. SIGBUS at any other
// address ends the process as before.
//
// The handler only changes the mapping and an atomic, so it may interrupt any code on any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace hearth::gguf {

/// Handles SIGBUS for the whole process. Call once, from main.
void survive_lost_pages();

/// Returns one sentence about a file that has lost pages since it was mapped; nullopt: none has. Any thread.
/// Costs one atomic load while nothing is lost.
std::optional<std::string> lost_file();
/// Throws ModelFileError with that sentence if there is one.
void refuse_lost_file();

/// Registers the mapping of a file for the lifetime of this object. Made by MappedFile.
class WatchedMapping {
 public:
  WatchedMapping() = default;
  WatchedMapping(std::span<const std::byte> bytes, const std::filesystem::path& path);
  WatchedMapping(WatchedMapping&& other) noexcept;
  WatchedMapping& operator=(WatchedMapping&& other) noexcept;
  ~WatchedMapping();

 private:
  int place_ = -1;  // index in the table of mappings; -1: none, or the table is full
};

}  // namespace hearth::gguf
