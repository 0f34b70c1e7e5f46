// The process's environment as a map. Only this file reads it, so tests can pass their own map.
#pragma once

#include <map>
#include <string>

namespace hearth {

using Environment = std::map<std::string, std::string>;

/// A copy of the environment. Call it once at start, before there are threads.
Environment process_environment();

/// The variable's value, or "" if it is absent.
std::string environment_value(const Environment& environment, const std::string& name);

}  // namespace hearth
