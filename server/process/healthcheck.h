// hearthd --healthcheck: asks a running server's /health, so that a container needs no curl.
//
// Called by main instead of serving; one thread.
#pragma once

#include <string>

namespace hearth {

struct HealthcheckResult {
  bool healthy = false;
  std::string answer;  // body of /health, or a sentence that says why there is none
};

/// host and port are the server's own options; a wildcard address means loopback. Sending and receiving time
/// out after four seconds each.
HealthcheckResult check_health(const std::string& host, int port);

}  // namespace hearth
