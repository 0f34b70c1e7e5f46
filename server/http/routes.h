// From a request to its endpoint: host, origin, key, path, method, and whether the model is there. The server's one
// handler.
//
// Called by all HTTP threads at once. Order: what concerns browsers, then the key, then the path, so that
// nobody without a key learns anything but whether the server is well.
#pragma once

#include "server/http/access/auth.h"
#include "server/http/access/cors.h"
#include "server/http/access/host_policy.h"
#include "server/http/http_types.h"
#include "server/metrics/metrics_page.h"
#include "server/server_state.h"

namespace hearth {

class Routes {
 public:
  /// state and metrics must outlive the routes.
  Routes(const ServerState& state, const MetricsPage& metrics, Auth auth, CorsPolicy cors,
         HostPolicy hosts = HostPolicy("0.0.0.0", {}));

  /// Sets the request's client.
  HttpResponse operator()(HttpRequest& request) const;

 private:
  HttpResponse dispatch(HttpRequest& request) const;
  HttpResponse dispatch_allowed(const HttpRequest& request, ErrorStyle errors) const;

  const ServerState& state_;
  const MetricsPage& metrics_;
  const Auth auth_;
  const CorsPolicy cors_;
  const HostPolicy hosts_;
};

}  // namespace hearth
