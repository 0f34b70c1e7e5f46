// Handles SIGHUP: reopens the log file, and reads the key file, the log level and the model's name again.
// ModelHost::reload() then replaces the model. Other options do not change.
#pragma once

#include <optional>

#include "config/environment.h"
#include "config/invocation.h"
#include "server/gate/auth.h"

namespace hearth {

/// Logs the changes. Returns the options that a start would have now, or nullopt if a start would fail.
/// Settings that cannot be read stay in effect, and the error is logged. Called on main's thread.
std::optional<Options> reload(const Invocation& started, const Environment& environment, const Auth& auth);

}  // namespace hearth
