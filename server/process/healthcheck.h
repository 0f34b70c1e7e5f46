// hearthd --healthcheck: asks a running server's /health, so that a container needs no curl.
//
// Called by main instead of serving; one thread.
#pragma once

#include <string>

namespace hearth {

struct HealthcheckResult {
  bool healthy = false;
  std::string answer;  // /health's body, or a sentence that says why there is none
};

/// host and port are the server's own options; for a wildcard address loopback is asked. Sending and
/// receiving give up after four seconds each.
HealthcheckResult check_health(const std::string& host, int port);

}  // namespace hearth
