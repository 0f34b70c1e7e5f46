// See the header.
#include "profiler/machine/available_memory.h"

#include <fstream>
#include <string>

namespace hearth {

size_t available_bytes() {
  std::ifstream in("/proc/meminfo");  // "MemAvailable:   23068672 kB"
  std::string key, rest;
  size_t kilobytes = 0;
  while (in >> key >> kilobytes && std::getline(in, rest)) {
    if (key == "MemAvailable:") return kilobytes << 10;
  }
  return 0;
}

}  // namespace hearth
