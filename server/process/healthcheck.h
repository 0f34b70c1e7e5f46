// hearthd --healthcheck: requests /health from a running server, so that a container does not need curl.
//
// main calls this instead of serving. Runs on one thread.
#pragma once

#include <string>

namespace hearth {

struct HealthcheckResult {
  bool healthy = false;
  std::string answer;  // body of /health, or a sentence that explains why there is no answer
};

/// host, port: the options with which the server was started; a wildcard address is replaced by loopback.
/// Sending and receiving time out after four seconds each.
HealthcheckResult check_health(const std::string& host, int port);

}  // namespace hearth
