// Takes from the process the system calls that no server of models needs: starting programs, looking into other processes,
// mounting, loading modules. By seccomp, which every Linux since 3.17 has.
//
// For what an attacker would do who has found a fault in the code that reads requests. Called once, on main's thread.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace hearth {

/// From now on the system calls fail with EPERM, in all threads that exist and in those that they start, and no program can
/// be started with more rights (no_new_privs). Calls of another architecture's numbers fail too. nullopt: in effect;
/// else why not, as a phrase.
std::optional<std::string> deny_system_calls();

/// The numbers of the denied calls, for tests.
std::span<const int> denied_system_calls();

}  // namespace hearth
