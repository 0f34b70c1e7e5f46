// Decides, from the head of a request, whether the request is answered immediately, or by an endpoint after
// its body has arrived.
//
// The HTTP server calls admit() for each request before it waits for the body. Several HTTP threads call it
// at once. The checks have this order: host; OPTIONS; endpoints that are open to everyone; origin; key and
// its limits; path, method and type of the body. A client without a key therefore learns nothing except the
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
  bool has_page = true;  // whether GET / returns the page instead of a line of text
  bool has_tls = false;  // whether the port speaks HTTPS
};

class Routes {
 public:
  /// Several models among which requests choose by name.
  struct Several {
    const ModelCatalog* catalog = nullptr;  // null: `state` has the only model
    int most_waiting = 0;                   // requests that may wait until a model is loaded, for each model
    // Answers requests for lists while the only model is unloaded, so that they do not load it; null: they
    // get 503.
    const ModelCatalog* unloaded = nullptr;
  };

  /// state, metrics and the catalogs of `several` must outlive this object. admin: answers /admin/model; not
  /// empty.
  Routes(const ServerState& state, const MetricsPage& metrics, AccessRules rules,
         std::function<HttpResponse(const HttpRequest&)> admin, Several several = {nullptr, 0, nullptr});

  /// Decides how a request is handled. Reads only the head. Sets request.sender and request.client. The
  /// result is valid as long as this object and the request exist.
  Admission admit(HttpRequest& request) const;

 private:
  /// The result of checking a request's key.
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
  void answer_by_choice(const Endpoint& endpoint, std::string_view argument, const HttpRequest& request,
                        ErrorStyle errors, ResponseWriter& writer) const;
  static void answer_with(const ReadyModel& model, const Endpoint& endpoint, std::string_view argument,
                          const HttpRequest& request, ResponseWriter& writer);
  static HttpResponse no_model(const ServerState& state, ModelUse use, ErrorStyle errors);

  const ServerState& state_;
  const Several several_;
  mutable KeyLimits limits_;  // thread-safe
  const AccessRules rules_;
  const ServerParts parts_;
};

}  // namespace hearth
