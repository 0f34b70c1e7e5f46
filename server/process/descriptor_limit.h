// Raises the process's limit on open descriptors: shells and systemd start programs with 1024, and a server
// with many clients needs more.
//
// Called once by the daemon, on main's thread.
#pragma once

#include <cstddef>

namespace hearth {

/// Raises the soft limit (RLIMIT_NOFILE) to `wanted`, or to the hard limit if that is lower; never lowers it.
/// Returns the resulting limit.
size_t raise_descriptor_limit(size_t wanted);

}  // namespace hearth
