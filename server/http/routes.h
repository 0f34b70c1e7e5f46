// From a request to its endpoint: origin, key, path, method, and whether the model is there. The server's one
// handler.
//
// Called by all HTTP threads at once. Order: what concerns browsers, then the key, then the path, so that
// nobody without a key learns anything but whether the server is well.
#pragma once

#include "server/http/access/auth.h"
#include "server/http/access/cors.h"
#include "server/http/http_types.h"
#include "server/metrics/metrics_page.h"
#include "server/server_state.h"

namespace hearth {

class Routes {
 public:
  /// state and metrics must outlive the routes.
  Routes(const ServerState& state, const MetricsPage& metrics, Auth auth, CorsPolicy cors);

  HttpResponse operator()(const HttpRequest& request) const;

 private:
  HttpResponse dispatch(const HttpRequest& request) const;

  const ServerState& state_;
  const MetricsPage& metrics_;
  const Auth auth_;
  const CorsPolicy cors_;
};

}  // namespace hearth
