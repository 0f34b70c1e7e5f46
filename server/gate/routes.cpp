// See the header.
#include "server/gate/routes.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "server/endpoints/api_path.h"
#include "server/endpoints/endpoints.h"
#include "server/gate/content_type.h"
#include "server/gate/own_page.h"
#include "server/http/error_response.h"
#include "server/json/api_error.h"
#include "server/page/page.h"

namespace hearth {
namespace {

/// HEAD is answered like GET; the transport omits the body.
bool is_method(const HttpRequest& request, std::string_view method) {
  return request.method == method || (method == "GET" && request.method == "HEAD");
}

/// The endpoint and methods that match the request's path.
struct Destination {
  const Endpoint* endpoint = nullptr;  // null: no endpoint of this path has the method
  std::string_view argument = {};
  std::string methods = {};  // methods of the path; empty: no such path
};

Destination find_destination(const HttpRequest& request) {
  const auto [path, model] = read_api_path(request.path);
  Destination found;
  for (const Endpoint& endpoint : endpoints()) {
    const std::optional<std::string_view> argument = match_path(endpoint.path, path);
    if (!argument) continue;
    if (is_method(request, endpoint.method)) {
      found.endpoint = &endpoint;
      found.argument = argument->empty() ? model : *argument;
      found.methods = endpoint.method;
      return found;
    }
    found.methods += (found.methods.empty() ? "" : ", ") + std::string(endpoint.method);
  }
  return found;
}

/// The health endpoints, which need neither key nor model.
struct Probe {
  std::string_view endpoint;
  HttpResponse (ServerState::*answer)() const;
};
constexpr std::array<Probe, 3> kProbes = {
    {{"/health", &ServerState::health}, {"/livez", &ServerState::live}, {"/readyz", &ServerState::ready}}};

const Probe* find_probe(std::string_view endpoint) {
  const auto* probe = std::ranges::find(kProbes, endpoint, &Probe::endpoint);
  return probe == kProbes.end() ? nullptr : probe;
}

HttpResponse unavailable(const std::string& message, ErrorStyle errors) {
  HttpResponse response = error_response({503, message, "", ""}, errors);
  // Without Retry-After, clients use up their retries within two seconds.
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace

Routes::Routes(const ServerState& state, const MetricsPage& metrics, AccessRules rules)
    : state_(state), metrics_(metrics), rules_(std::move(rules)) {}

HttpResponse Routes::operator()(HttpRequest& request) const {
  request.sender = rules_.proxies.sender(request);
  HttpResponse response = dispatch(request);
  rules_.cors.allow(request, response);
  // Anthropic's clients look for the request id under this name.
  if (error_style(request) == ErrorStyle::kAnthropic)
    response.headers.emplace_back("request-id", request.request_id);
  return response;
}

HttpResponse Routes::dispatch(HttpRequest& request) const {
  const ErrorStyle errors = error_style(request);
  if (const std::optional<ApiError> refusal = rules_.hosts.refusal(request))
    return error_response(*refusal, errors);
  if (request.method == "OPTIONS") return rules_.cors.preflight(request);
  const std::string_view endpoint = read_api_path(request.path).endpoint;
  if (const Probe* probe = find_probe(endpoint))
    return is_method(request, "GET") ? (state_.*probe->answer)() : wrong_method(request, "GET", errors);

  if (rules_.has_page && request.path == "/" && is_method(request, "GET")) return page(request);

  const std::string_view origin = request.header("Origin");
  if (!rules_.auth.required() && CorsPolicy::is_web_page(origin) &&
      !rules_.cors.allows(origin, request.remote_address) && !is_own_page(origin, request.header("Host"))) {
    return error_response(
        {403,
         "web pages of " + std::string(origin) + " may not use this server; --cors-origin " +
             std::string(origin) + " allows them",
         "", "origin_not_allowed"},
        errors);
  }
  const Auth::Verdict verdict = rules_.auth.check(request, needed_role(endpoint));
  request.client = verdict.key_name.empty() ? request.sender : "key " + verdict.key_name;
  HttpResponse response = verdict.refusal ? error_response(*verdict.refusal, errors)
                                          : dispatch_limited(request, verdict.key, errors);
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"hearthd\"");
  response.key_name = verdict.key_name;
  return response;
}

/// Refuses requests beyond the key's limits.
HttpResponse Routes::dispatch_limited(const HttpRequest& request, const ApiKey& key,
                                      ErrorStyle errors) const {
  if (request.method != "POST") return dispatch_allowed(request, errors);
  std::variant<KeyLimits::Place, KeyLimits::Refusal> entered = limits_.enter(key);
  if (const auto* refusal = std::get_if<KeyLimits::Refusal>(&entered)) {
    HttpResponse response = error_response({429, refusal->message, "", "key_limit"}, errors);
    response.headers.emplace_back("Retry-After", std::to_string(refusal->retry_after));
    return response;
  }
  HttpResponse response = dispatch_allowed(request, errors);
  response.place = std::get<KeyLimits::Place>(std::move(entered));
  return response;
}

/// Answers a request that passed all access checks.
HttpResponse Routes::dispatch_allowed(const HttpRequest& request, ErrorStyle errors) const {
  // Not in endpoints(), because it describes the server and works while the model is loading.
  const std::string_view endpoint = read_api_path(request.path).endpoint;
  if (endpoint == "/metrics")
    return is_method(request, "GET") ? metrics_.answer() : wrong_method(request, "GET", errors);
  if (endpoint == "/admin/model" && rules_.admin) return rules_.admin(request);
  const Destination to = find_destination(request);
  if (to.methods.empty()) {
    return error_response(
        {404,
         "there is no " + request.path +
             " here; GET /openapi.json lists the endpoints, among them /v1/chat/completions and /v1/models",
         "", "unknown_url"},
        errors);
  }
  if (to.endpoint == nullptr) return wrong_method(request, to.methods, errors);
  if (request.method == "POST") {
    const std::optional<ApiError> refusal = content_type_refusal(request.header("Content-Type"));
    if (refusal) return error_response(*refusal, errors);
  }
  if (const auto* handle = std::get_if<Endpoint::OfServer>(&to.endpoint->handle)) return (*handle)(request);

  // An open page does not keep the model loaded, nor does it load it again.
  const bool only_watches = to.endpoint->path == "/page/events";
  const std::shared_ptr<const ReadyModel> model = only_watches ? state_.model() : state_.await_model();
  if (state_.phase() == ServerState::Phase::kStopping)
    return unavailable("the server is stopping; try again when it is back", errors);
  if (model == nullptr && only_watches && state_.phase() == ServerState::Phase::kUnloaded)
    return unavailable("the model is unloaded; the next request loads it again", errors);
  if (model == nullptr) {
    const int percent = static_cast<int>(state_.progress() * 100);
    return unavailable("the model is being loaded (" + std::to_string(percent) + " %); try again shortly",
                       errors);
  }
  HttpResponse response = std::get<Endpoint::OfModel>(to.endpoint->handle)(*model->api, request, to.argument);
  response.model = model;  // keeps the model until the answer has ended, even if another replaces it
  return response;
}

}  // namespace hearth
