// Restricts the process to the files that it needs and denies new TCP connections. Uses Landlock (Linux 5.13,
// for connections Linux 6.7).
//
// Files and sockets that are open stay usable. Called once, on main's thread, before other threads exist,
// because the kernel restricts only the calling thread and threads that it starts later.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hearth {

/// The files and folders that the process may open. A folder includes everything below it. Paths that do not
/// exist are skipped. All other files can no longer be opened.
struct FileRights {
  std::vector<std::filesystem::path> readable;
  std::vector<std::filesystem::path>
      writable;  // can also be read; in these folders, files can be created, renamed and removed
};

/// The restrictions in effect.
struct Landlocked {
  int abi = 0;           // version of the kernel's interface
  bool network = false;  // true if the process cannot bind a TCP port or start a TCP connection
};

/// Returns the restrictions in effect, or a phrase that explains why there are none.
std::variant<Landlocked, std::string> confine_files(const FileRights& rights);

/// Returns the number of threads of this process, or 0 if unknown.
int count_threads();

}  // namespace hearth
