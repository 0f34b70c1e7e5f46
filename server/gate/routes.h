// Routes a request to its endpoint, after checking host, origin, key, limits, path and method. This is the
// server's only request handler.
//
// The transport calls admit() with each request's head, before it awaits the body. All HTTP threads call it at
// once. Order of the checks: host; OPTIONS, health probes and the page,
// which need no key; origin; key and its limits; then the path, so that a client without a key learns nothing
// but the server's health.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "server/api/server_state.h"
#include "server/endpoints/endpoints.h"
#include "server/gate/auth.h"
#include "server/gate/cors.h"
#include "server/gate/host_policy.h"
#include "server/gate/key_limits.h"
#include "server/gate/trusted_proxies.h"
#include "server/http/admission.h"
#include "server/http/http_types.h"
#include "server/json/api_error.h"
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

  /// Decides what becomes of a request. Reads only the head; sets the request's sender and client. The
  /// admission is valid as long as the routes.
  Admission admit(HttpRequest& request) const;

 private:
  std::optional<HttpResponse> refusal(HttpRequest& request, ErrorStyle errors, Admission& admission,
                                      KeyLimits::Place& place) const;
  std::optional<HttpResponse> refusal_by_key(HttpRequest& request, std::string_view endpoint,
                                             ErrorStyle errors, Admission& admission,
                                             KeyLimits::Place& place) const;
  std::optional<HttpResponse> refusal_by_path(const HttpRequest& request, std::string_view endpoint,
                                              ErrorStyle errors) const;
  void answer(const HttpRequest& request, ResponseWriter& writer) const;
  void answer_by_model(const Endpoint& endpoint, std::string_view argument, const HttpRequest& request,
                       ResponseWriter& writer) const;

  const ServerState& state_;
  const MetricsPage& metrics_;
  mutable KeyLimits limits_;  // thread-safe
  const AccessRules rules_;
};

}  // namespace hearth
