// Restricts the process to the files that it needs, and denies new TCP connections. Uses Landlock, which
// restricts files since Linux 5.13 and connections since Linux 6.7.
//
// Open files and sockets remain usable. Called once, on main's thread, before other threads exist, because
// the kernel restricts only the calling thread and the threads that it starts later.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hearth {

/// The files and folders that the process may open, with everything below the folders. Paths that do not
/// exist are skipped. No other file can be opened.
struct FileRights {
  std::vector<std::filesystem::path> readable;
  // In these folders, files can be read, written, created, renamed and removed.
  std::vector<std::filesystem::path> writable;
};

/// The restrictions that are in effect.
struct Landlocked {
  int abi = 0;           // version of the kernel's Landlock interface
  bool network = false;  // whether binding TCP ports and starting TCP connections are denied
};

/// Restricts the process. Returns the restrictions, or a phrase that explains why there are none.
std::variant<Landlocked, std::string> confine_files(const FileRights& rights);

/// Returns the number of threads in this process, or 0 if unknown.
int count_threads();

}  // namespace hearth
