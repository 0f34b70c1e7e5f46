// Answers GET /metrics with measurements of the server, the engines and the process. Also counts requests.
//
// Daemon creates one MetricsPage before it binds the port. Thread-safe; never waits for the engine.
#pragma once

#include <string>

#include "server/api/model_catalog.h"
#include "server/api/server_state.h"
#include "server/http/http_types.h"
#include "server/metrics/request_counts.h"

namespace hearth {

class MetricsPage {
 public:
  /// state and catalog must outlive the page. catalog: null if `state` has the only model.
  MetricsPage(const ServerState& state, std::string version, const ModelCatalog* catalog = nullptr);

  /// Counts a request that has been answered.
  void count(const AccessRecord& record) { requests_.add(record); }
  HttpResponse answer() const;

  /// Answers a request on the port of --metrics-port, which serves only the endpoints marked as probes. These
  /// requests need no key.
  HttpResponse serve_alone(const HttpRequest& request) const;

 private:
  const ServerState& state_;
  const std::string version_;
  const ModelCatalog* const catalog_;
  RequestCounts requests_;
};

}  // namespace hearth
