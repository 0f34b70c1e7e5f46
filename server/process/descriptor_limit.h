// Raises the process's limit on open descriptors: shells and systemd start programs with 1024, and a server of many clients
// needs more.
//
// Called once by the daemon, on main's thread.
#pragma once

#include <cstddef>

namespace hearth {

/// Raises the soft limit (RLIMIT_NOFILE) to `wanted` if it is lower and the hard limit permits, else to the hard limit. Returns the
/// limit that holds then.
size_t raise_descriptor_limit(size_t wanted);

}  // namespace hearth
