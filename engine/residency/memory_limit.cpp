// Reads physical memory and cgroup limits; formats amounts of memory. See the header.
#include "engine/residency/memory_limit.h"

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace hearth {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

/// Reads the number in a limit file. If there is no limit, the file contains "max" in cgroup v2, and a number
/// beyond any memory size in v1.
uint64_t read_limit(const std::filesystem::path& path) {
  std::ifstream in(path);
  uint64_t bytes = 0;
  return in >> bytes ? bytes : kNoLimit;
}

/// Returns the lowest limit of a group and its parents. Always reads the root of the mount as well: inside a
/// container, the group's path may name a group outside the mount, and then the root of the mount is the
/// group of this process.
uint64_t limit_up_to_root(const std::filesystem::path& mount, const std::string& group, const char* file) {
  std::filesystem::path path = mount;
  uint64_t limit = read_limit(path / file);
  for (const std::filesystem::path& part : std::filesystem::path(group).relative_path()) {
    path /= part;
    limit = std::min(limit, read_limit(path / file));
  }
  return limit;
}

uint64_t physical_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page_bytes <= 0) return kNoLimit;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

}  // namespace

uint64_t memory_limit_bytes(const std::filesystem::path& proc, const std::filesystem::path& sys) {
  const std::filesystem::path root = sys / "fs/cgroup";
  uint64_t limit = physical_bytes();
  std::ifstream groups(proc / "self/cgroup");
  std::string line;
  // Lines are "hierarchy:controllers:path". The line of v2 has hierarchy 0 and lists no controllers.
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (line.starts_with("0::")) {
      limit = std::min(limit, limit_up_to_root(root, group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      limit = std::min(limit, limit_up_to_root(root / "memory", group, "memory.limit_in_bytes"));
    }
  }
  return limit;
}

uint64_t anonymous_bytes(const std::filesystem::path& proc) {
  std::ifstream status(proc / "self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("RssAnon:")) return std::strtoull(line.c_str() + 8, nullptr, 10) * 1024;
  }
  return 0;
}

uint64_t available_bytes(const std::filesystem::path& proc, const std::filesystem::path& sys) {
  const uint64_t limit = memory_limit_bytes(proc, sys), used = anonymous_bytes(proc);
  uint64_t available = limit > used ? limit - used : 0;
  std::ifstream in(proc / "meminfo");  // "MemAvailable:   23068672 kB"
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view kName = "MemAvailable:";
    if (line.starts_with(kName))
      available =
          std::min<uint64_t>(available, std::strtoull(line.c_str() + kName.size(), nullptr, 10) * 1024);
  }
  return available;
}

std::string bytes_text(double bytes) {
  char text[32];
  if (bytes < 1e6) {
    std::snprintf(text, sizeof text, "%.0f KB", bytes / 1e3);
  } else if (bytes < 1e9) {
    std::snprintf(text, sizeof text, "%.1f MB", bytes / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.2f GB", bytes / 1e9);
  }
  return text;
}

}  // namespace hearth
