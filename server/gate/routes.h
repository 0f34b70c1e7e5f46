// Routes a request to its endpoint, after checking host, origin, key, path, method, and whether the model is
// loaded. This is the server's only request handler.
//
// Called by all HTTP threads at once. Order of the checks: host; OPTIONS, health probes and the page, which
// need no key; origin; key and its limits; then the path, so that a client without a key learns nothing but
// the server's health.
#pragma once

#include <functional>

#include "server/api/server_state.h"
#include "server/gate/auth.h"
#include "server/gate/cors.h"
#include "server/gate/host_policy.h"
#include "server/gate/key_limits.h"
#include "server/gate/trusted_proxies.h"
#include "server/http/http_types.h"
#include "server/metrics/metrics_page.h"

namespace hearth {

struct AccessRules {
  Auth auth;
  CorsPolicy cors;
  HostPolicy hosts = HostPolicy("0.0.0.0", {});
  TrustedProxies proxies = TrustedProxies({});
  bool has_page = true;  // GET / is the page, for everyone; otherwise a line of text
  std::function<HttpResponse(const HttpRequest&)> admin =
      {};  // handles /admin/model; empty: no such endpoint
};

class Routes {
 public:
  /// state and metrics must outlive the routes.
  Routes(const ServerState& state, const MetricsPage& metrics, AccessRules rules);

  /// Answers a request; sets its sender and client.
  HttpResponse operator()(HttpRequest& request) const;

 private:
  HttpResponse dispatch(HttpRequest& request) const;
  HttpResponse dispatch_limited(const HttpRequest& request, const ApiKey& key, ErrorStyle errors) const;
  HttpResponse dispatch_allowed(const HttpRequest& request, ErrorStyle errors) const;

  const ServerState& state_;
  const MetricsPage& metrics_;
  mutable KeyLimits limits_;  // thread-safe
  const AccessRules rules_;
};

}  // namespace hearth
