// Handles SIGHUP: reopens the log file and rereads the key file, the log level and the model
// (ModelHost::reload() handles the model). All other options stay as they were at the start.
#pragma once

#include <optional>

#include "config/environment.h"
#include "config/invocation.h"
#include "server/gate/auth.h"

namespace hearth {

/// Logs the changes and returns the options that a start would have now, or nullopt if a start would refuse
/// them. If something cannot be read, logs that and keeps the old setting. Called on main's thread.
std::optional<Options> reload(const Invocation& started, const Environment& environment, const Auth& auth);

}  // namespace hearth
