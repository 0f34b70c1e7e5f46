// hearthd --healthcheck: asks a running server's /health, so that a container needs no curl.
#pragma once

#include <string>

namespace hearth {

struct HealthcheckResult {
  bool healthy = false;
  std::string answer;  // /health's body, or a sentence that says why there is none
};

/// host, port: as the server was given them; a wildcard address is asked on loopback. Takes five seconds at
/// most.
HealthcheckResult check_health(const std::string& host, int port);

}  // namespace hearth
