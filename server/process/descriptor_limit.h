// Raises the process's limit on open file descriptors. Shells and systemd start programs with a limit of
// 1024, but a server with many clients needs more.
//
// Daemon calls this once, on main's thread.
#pragma once

#include <cstddef>

namespace hearth {

/// Raises the soft limit (RLIMIT_NOFILE) to `wanted`, or to the hard limit if that is lower. Never lowers the
/// soft limit. Returns the resulting limit.
size_t raise_descriptor_limit(size_t wanted);

}  // namespace hearth
