// Denies the process system calls that a model server does not need: starting programs, inspecting other
// processes, mounting, loading kernel modules. Uses seccomp, which every Linux since 3.17 has.
//
// Limits an attacker who exploits a bug in the request parsers. Called once, on main's thread.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace hearth {

/// Makes the calls fail with EPERM in all existing threads and those they start, and prevents programs from
/// being started with more rights (no_new_privs). Calls with another architecture's numbers fail too. Returns
/// nullopt if in effect, otherwise the reason as a phrase.
std::optional<std::string> deny_system_calls();

/// The numbers of the denied calls, for tests.
std::span<const int> denied_system_calls();

}  // namespace hearth
