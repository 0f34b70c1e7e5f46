// The process's environment as a map. Only this file reads the environment, so tests can pass their own map.
#pragma once

#include <map>
#include <string>

namespace hearth {

using Environment = std::map<std::string, std::string>;

/// Returns a copy of the environment. Must be called once at start, before threads exist.
Environment process_environment();

/// Returns the variable's value, or "" if the variable is absent.
std::string environment_value(const Environment& environment, const std::string& name);

}  // namespace hearth
