// Implements cache_folder().
#include "profiler/machine/cache_folder.h"

#include <system_error>

namespace hearth {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::variant<fs::path, std::string> cache_folder(const Environment& environment) {
  const fs::path base = environment_value(environment, "XDG_CACHE_HOME");
  const fs::path home = environment_value(environment, "HOME");
  fs::path folder;
  if (base.is_absolute()) {
    folder = base / "hearth";
  } else if (home.is_absolute()) {
    folder = home / ".cache" / "hearth";
  } else {
    return std::string("neither XDG_CACHE_HOME nor HOME names a folder");
  }
  std::error_code error;
  fs::create_directories(folder, error);
  std::error_code unreadable;
  if (fs::is_directory(folder, unreadable)) return folder;
  return folder.string() + " cannot be made" + (error ? ": " + error.message() : "");
}

}  // namespace hearth
