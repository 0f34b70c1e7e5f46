// What SIGHUP asks for: the log file is opened anew, the key file and the log level are read again. Everything else of the
// configuration stays as it was at the start.
#pragma once

#include "config/environment.h"
#include "config/invocation.h"
#include "server/http/access/auth.h"

namespace hearth {

/// Logs what has changed. What cannot be read is refused with a sentence in the log, and what was before stays in effect.
/// Called on main's thread.
void reload(const Invocation& started, const Environment& environment, const Auth& auth);

}  // namespace hearth
