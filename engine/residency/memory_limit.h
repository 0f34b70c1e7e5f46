// How much memory this process may use, so that what cannot fit is refused before it is taken.
//
// Memory that a backend reserves costs pages only when they are first used. So a reservation beyond what the
// machine has would be granted, and end hours later in the kernel's killing the process. Read at load, from
// any thread.
#pragma once

#include <cstdint>
#include <filesystem>

namespace hearth {

/// Bytes of physical memory, or fewer where a cgroup of this process says so (memory.max of v2,
/// memory.limit_in_bytes of v1, of its group and all parents). Files that are missing or unreadable are no
/// limit. `proc` and `sys` are where those file systems are mounted.
uint64_t memory_limit_bytes(const std::filesystem::path& proc = "/proc",
                            const std::filesystem::path& sys = "/sys");

}  // namespace hearth
