// Takes from the process all files but those it needs, and new TCP connections, by Landlock (Linux 5.13; connections 6.7).
//
// Files and sockets that are open stay usable. Called once, on main's thread, before there are others: the kernel binds the
// calling thread and those that it starts from then on.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hearth {

/// Files, and folders with everything below them. What does not exist is skipped. Everything else can no longer be opened.
struct FileRights {
  std::vector<std::filesystem::path> readable;
  std::vector<std::filesystem::path> writable;  // read too; files can be made, renamed and removed in folders
};

/// What is in effect.
struct Landlocked {
  int abi = 0;           // version of the kernel's interface
  bool network = false;  // no TCP port can be bound and no TCP connection begun
};

/// Or why nothing is, as a phrase.
std::variant<Landlocked, std::string> confine_files(const FileRights& rights);

/// How many threads this process has; 0 if the system does not say.
int count_threads();

}  // namespace hearth
