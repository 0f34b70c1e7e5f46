// Answers GET /metrics: gathers figures of the server, the engines and the system, and counts access-log
// records.
//
// One per process, made before the port is bound. Thread-safe; never waits for the engine.
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

  /// Counts an answered request.
  void count(const AccessRecord& record) { requests_.add(record); }
  HttpResponse answer() const;

  /// The handler of a port that serves only the probes among the endpoints (--metrics-port). It needs no key.
  HttpResponse serve_alone(const HttpRequest& request) const;

 private:
  const ServerState& state_;
  const std::string version_;
  RequestCounts requests_;
};

}  // namespace hearth
