// Handles SIGHUP: reopens the log file, and reads the key file, the certificate of TLS, the log level and the
// model's name again.
// ModelHost::reload() then replaces the model. Other options do not change.
#pragma once

#include <optional>

#include "config/environment.h"
#include "config/invocation.h"
#include "server/gate/auth.h"
#include "server/http/connection/tls_identity.h"

namespace hearth {

/// Logs the changes. Returns the options that a start would have now, or nullopt if a start would fail.
/// Settings that cannot be read stay in effect, and the error is logged. tls: null without TLS. Called on
/// main's thread.
std::optional<Options> reload(const Invocation& started, const Environment& environment, const Auth& auth,
                              TlsIdentity* tls);

}  // namespace hearth
