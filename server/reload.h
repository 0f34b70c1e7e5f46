// What SIGHUP asks for: the log file is opened anew, the key file, the log level and the model are read again (the model by
// ModelHost::reload). Everything else of the configuration stays as it was at the start.
#pragma once

#include <optional>

#include "config/environment.h"
#include "config/invocation.h"
#include "server/gate/auth.h"

namespace hearth {

/// Logs what has changed, and returns the options as they would be at a start now; nullopt if they are refused. What cannot
/// be read is refused with a sentence in the log, and what was before stays in effect. Called on main's thread.
std::optional<Options> reload(const Invocation& started, const Environment& environment, const Auth& auth);

}  // namespace hearth
