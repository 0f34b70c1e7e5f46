// Determines how much memory this process may use, so that a model that cannot fit is refused before its
// memory is allocated. Also formats amounts of memory.
//
// The operating system commits memory only when its pages are first used. Without this check, it would grant
// more memory than the machine has, and would kill the process hours later. Called at load, from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace hearth {

/// Bytes of physical memory, or fewer if a cgroup of this process or a parent group has a lower limit
/// (memory.max in v2, memory.limit_in_bytes in v1). Files that are missing or unreadable set no limit. `proc`
/// and `sys` are the mount points of those file systems.
uint64_t memory_limit_bytes(const std::filesystem::path& proc = "/proc",
                            const std::filesystem::path& sys = "/sys");

/// Bytes of memory that this process uses now without a backing file (RssAnon); 0 if the system does not
/// report it.
uint64_t anonymous_bytes(const std::filesystem::path& proc = "/proc");

/// Bytes that this process could still allocate without swapping: the smaller of the system's available
/// memory and the unused part of memory_limit_bytes(). Cached file pages count as available, because the
/// system can drop them.
uint64_t available_bytes(const std::filesystem::path& proc = "/proc",
                         const std::filesystem::path& sys = "/sys");

/// Formats bytes as "812 KB", "13.4 MB" or "5.81 GB", in decimal units like bandwidths and file sizes.
std::string bytes_text(double bytes);

}  // namespace hearth
