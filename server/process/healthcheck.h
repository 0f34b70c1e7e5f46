// hearthd --healthcheck: requests /health from a running server. Containers therefore do not need curl.
//
// main calls this instead of serving. Runs on one thread.
#pragma once

#include <string>

namespace hearth {

struct HealthcheckResult {
  bool healthy = false;
  std::string answer;  // body of the answer, or a sentence that explains why there is none
};

/// host, port, tls: the options with which the server was started; a wildcard address is replaced by
/// loopback. Sending and receiving each time out after 4 seconds. With TLS, the server's certificate is not
/// checked: it need not be valid for the loopback address, and the request has no secret.
HealthcheckResult check_health(const std::string& host, int port, bool tls = false);

}  // namespace hearth
