// From a request to its endpoint: host, origin, key, path, method, and whether the model is there. The server's one
// handler.
//
// Called by all HTTP threads at once. Order: health and the page, which hold nothing of anyone; what concerns browsers;
// the key; then the path, so that nobody without a key learns anything but whether the server is well.
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
  bool has_page = true;  // GET / is the page, to everyone; else a line of text
  std::function<HttpResponse(const HttpRequest&)> admin = {};  // /admin/model; empty: there is none
};

class Routes {
 public:
  /// state and metrics must outlive the routes.
  Routes(const ServerState& state, const MetricsPage& metrics, AccessRules rules);

  /// Sets the request's sender and client.
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
