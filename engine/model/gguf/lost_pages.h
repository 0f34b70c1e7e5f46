// Keeps the process alive when a mapped model file loses pages, because the file is truncated or its disk
// cannot read it. The system then raises SIGBUS, which by default ends a process without a message.
//
// After survive_lost_pages(), such a signal no longer ends the process. Instead, the mapping is filled with
// zeros from the lost page on, the loss is recorded, and the thread continues. Code that computes with the
// file's bytes must call lost_file() after reading them and before using the results; ModelRuntime does so
// after each step. SIGBUS at any other address still ends the process.
//
// The handler only changes the mapping and an atomic, so it may interrupt any code on any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace hearth::gguf {

/// Installs the handler of SIGBUS for the whole process. Call once, from main.
void survive_lost_pages();

/// Returns one sentence about a file that has lost pages since it was mapped; nullopt if no file has. Any
/// thread. Costs one atomic load as long as nothing is lost.
std::optional<std::string> lost_file();
/// If a file has lost pages, throws ModelFileError with lost_file()'s sentence.
void refuse_lost_file();

/// Registers the mapping of a file as long as this object exists. MappedFile creates it.
class WatchedMapping {
 public:
  WatchedMapping() = default;
  WatchedMapping(std::span<const std::byte> bytes, const std::filesystem::path& path);
  WatchedMapping(WatchedMapping&& other) noexcept;
  WatchedMapping& operator=(WatchedMapping&& other) noexcept;
  ~WatchedMapping();

 private:
  int place_ = -1;  // index in the table of mappings; -1: not registered, or the table is full
};

}  // namespace hearth::gguf
