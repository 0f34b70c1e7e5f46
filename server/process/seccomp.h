// Denies system calls that a model server does not need: starting programs, inspecting other processes,
// mounting, loading kernel modules. Uses seccomp as Linux has it since 3.17.
//
// This limits the damage of a bug in the request parsers. Called once, on main's thread.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace hearth {

/// Makes the denied calls fail with EPERM in all current and later threads. Calls through the interface of
/// another architecture, such as x32, fail too. Also sets no_new_privs, so that a program that the process
/// starts cannot have more rights than the process. Returns nullopt on success, otherwise a phrase with the
/// reason.
std::optional<std::string> deny_system_calls();

/// Returns the numbers of the denied system calls, for tests.
std::span<const int> denied_system_calls();

}  // namespace hearth
