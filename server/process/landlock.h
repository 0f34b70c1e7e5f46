// Restricts the process to the files it needs and denies new TCP connections, with Landlock (Linux 5.13;
// connections 6.7).
//
// Open files and sockets stay usable. Called once, on main's thread, before other threads exist: the kernel
// restricts the calling thread and the threads that it starts later.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hearth {

/// Files, and folders with everything below them; missing ones are skipped. Nothing else can be opened
/// afterward.
struct FileRights {
  std::vector<std::filesystem::path> readable;
  std::vector<std::filesystem::path>
      writable;  // readable too; files in folders can be created, renamed, removed
};

/// The restrictions in effect.
struct Landlocked {
  int abi = 0;           // version of the kernel's interface
  bool network = false;  // no TCP port can be bound and no TCP connection begun
};

/// Returns the restrictions, or a phrase that says why there are none.
std::variant<Landlocked, std::string> confine_files(const FileRights& rights);

/// The number of threads of this process; 0 if unknown.
int count_threads();

}  // namespace hearth
