// Amounts of memory: how much this process may use, so that what cannot fit is refused before it is taken, and
// amounts as people read them.
//
// Memory that a backend reserves costs pages only when they are first used. So a reservation beyond what the machine
// has would be granted, and hours later the kernel would kill the process. Read at load, from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace hearth {

/// Bytes of physical memory, or fewer where a cgroup of this process says so (memory.max of v2,
/// memory.limit_in_bytes of v1, of its group and all parents). Files that are missing or unreadable are no
/// limit. `proc` and `sys` are where those file systems are mounted.
uint64_t memory_limit_bytes(const std::filesystem::path& proc = "/proc",
                            const std::filesystem::path& sys = "/sys");

/// "812 KB", "13.4 MB", "5.81 GB": decimal, as bandwidths and file sizes are given.
std::string bytes_text(double bytes);

}  // namespace hearth
