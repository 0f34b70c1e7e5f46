// Decides from a request's head how the request is handled: answered at once, or passed to an endpoint with
// its body.
//
// The transport calls admit() with each request's head, before it awaits the body. HTTP threads call it
// concurrently. Order of the checks: host; OPTIONS; endpoints that are open to everyone; origin; key and its
// limits; then path, method and type of the body, so that a client without a key learns nothing but the
// server's health.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
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
  bool has_page = true;  // true: GET / returns the page to everyone; false: it returns a line of text
};

class Routes {
 public:
  /// state and metrics must outlive the routes. admin: not empty; answers /admin/model.
  Routes(const ServerState& state, const MetricsPage& metrics, AccessRules rules,
         std::function<HttpResponse(const HttpRequest&)> admin);

  /// Decides how a request is handled. Reads only the head; sets the request's sender and client. The
  /// admission is valid as long as the routes and the request exist.
  Admission admit(HttpRequest& request) const;

 private:
  /// The outcome of checking a request's key.
  struct Entry {
    std::string key_name;
    KeyLimits::Place place;
    std::optional<HttpResponse> refusal = {};
  };
  Entry enter(HttpRequest& request, Access access, ErrorStyle errors) const;
  std::optional<HttpResponse> refusal_by_origin(const HttpRequest& request, ErrorStyle errors) const;
  HttpResponse whole_answer(const Endpoint& endpoint, const HttpRequest& request) const;
  void answer(const Endpoint& endpoint, std::string_view argument, const HttpRequest& request,
              ErrorStyle errors, ResponseWriter& writer) const;
  HttpResponse no_model(ModelUse use, ErrorStyle errors) const;

  const ServerState& state_;
  mutable KeyLimits limits_;  // thread-safe
  const AccessRules rules_;
  const ServerParts parts_;
};

}  // namespace hearth
