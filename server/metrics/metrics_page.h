// Answers GET /metrics with measurements of the server, the engines and the process. Also counts requests.
//
// Daemon creates one MetricsPage before it binds the port. Thread-safe; never waits for the engine.
#pragma once

#include <string>

#include "server/api/server_state.h"
#include "server/http/http_types.h"
#include "server/metrics/request_counts.h"

namespace hearth {

class MetricsPage {
 public:
  /// state must outlive the page.
  MetricsPage(const ServerState& state, std::string version);

  /// Counts a request that has been answered.
  void count(const AccessRecord& record) { requests_.add(record); }
  HttpResponse answer() const;

  /// Answers a request on the port of --metrics-port, which serves only the endpoints marked as probes. These
  /// requests need no key.
  HttpResponse serve_alone(const HttpRequest& request) const;

 private:
  const ServerState& state_;
  const std::string version_;
  RequestCounts requests_;
};

}  // namespace hearth
