// Denies the process the system calls that a model server does not need: starting programs, inspecting other
// processes, mounting, loading kernel modules. Uses seccomp, which is present in every Linux since 3.17.
//
// This limits what an attacker can do with a bug in the request parsers. Called once, on main's thread.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace hearth {

/// Makes the denied calls fail with EPERM in all existing threads and in threads that they start. Also
/// prevents the process from starting programs with additional rights (no_new_privs). Calls that use the
/// numbers of another architecture fail too. Returns nullopt on success, otherwise the reason as a phrase.
std::optional<std::string> deny_system_calls();

/// Returns the numbers of the denied calls, for tests.
std::span<const int> denied_system_calls();

}  // namespace hearth
