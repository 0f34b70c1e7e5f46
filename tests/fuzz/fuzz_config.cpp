// Reads any bytes as a --config file. They must give options or one ConfigError. The file is in memory,
// because the library only reads files.
//
// One thread.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "config/invocation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = ::memfd_create("config", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  try {
    const hearth::Invocation read = hearth::read_invocation({"--config", path}, {});
    if (read.settings.empty()) std::abort();
  } catch (const hearth::ConfigError& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}
