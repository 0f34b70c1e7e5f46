// Survives the loss of pages of a mapped model file: the file was cut short, or its disk cannot read it. The system raises SIGBUS
// then, which ends a process without a word.
//
// With survive_lost_pages() in effect, the rest of the mapping from the lost page on becomes zeros, the thread goes on, and the loss
// is noted. Whoever computes with the file's bytes asks lost_file() after reading them and before using what came of them;
// ModelRuntime does so after each step. SIGBUS at any other address ends the process as before.
//
// The handler only changes the mapping and an atomic, so it may interrupt any code on any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace hearth::gguf {

/// Takes over SIGBUS for the whole process. Call once, from main.
void survive_lost_pages();

/// One sentence about a file that has lost pages since it was mapped; nullopt: none has. Any thread. Costs one atomic's look while
/// nothing is lost.
std::optional<std::string> lost_file();
/// Throws ModelFileError with that sentence if there is one.
void refuse_lost_file();

/// The mapping of a file, noted as long as this object lives. Made by MappedFile.
class WatchedMapping {
 public:
  WatchedMapping() = default;
  WatchedMapping(std::span<const std::byte> bytes, const std::filesystem::path& path);
  WatchedMapping(WatchedMapping&& other) noexcept;
  WatchedMapping& operator=(WatchedMapping&& other) noexcept;
  ~WatchedMapping();

 private:
  int place_ = -1;  // in the table of mappings; -1: none, or the table is full
};

}  // namespace hearth::gguf
