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

Admission Routes::admit(HttpRequest& request) const {
  request.sender = rules_.proxies.sender(request);
  const ErrorStyle errors = error_style(request);
  Admission admission;
  rules_.cors.allow(request, admission.headers);
  // Anthropic's clients look for the request id under this name.
  if (errors == ErrorStyle::kAnthropic) admission.headers.emplace_back("request-id", request.request_id);
  KeyLimits::Place place;  // the answer holds it
  admission.at_once = refusal(request, errors, admission, place);
  if (!admission.at_once)
    admission.answer = [this, place](const HttpRequest& whole, ResponseWriter& writer) {
      answer(whole, writer);
    };
  return admission;
}

std::optional<HttpResponse> Routes::refusal(HttpRequest& request, ErrorStyle errors, Admission& admission,
                                            KeyLimits::Place& place) const {
  if (const std::optional<ApiError> host = rules_.hosts.refusal(request))
    return error_response(*host, errors);
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
  if (std::optional<HttpResponse> by_key = refusal_by_key(request, endpoint, errors, admission, place))
    return by_key;
  return refusal_by_path(request, endpoint, errors);
}

/// Refuses a request without the right key, and what is beyond the key's limits.
std::optional<HttpResponse> Routes::refusal_by_key(HttpRequest& request, std::string_view endpoint,
                                                   ErrorStyle errors, Admission& admission,
                                                   KeyLimits::Place& place) const {
  const Auth::Verdict verdict = rules_.auth.check(request, needed_role(endpoint));
  request.client = verdict.key_name.empty() ? request.sender : "key " + verdict.key_name;
  admission.key_name = verdict.key_name;
  if (verdict.refusal) {
    HttpResponse response = error_response(*verdict.refusal, errors);
    if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"hearthd\"");
    return response;
  }
  if (request.method != "POST") return std::nullopt;
  std::variant<KeyLimits::Place, KeyLimits::Refusal> entered = limits_.enter(verdict.key);
  if (const auto* limited = std::get_if<KeyLimits::Refusal>(&entered)) {
    HttpResponse response = error_response({429, limited->message, "", "key_limit"}, errors);
    response.headers.emplace_back("Retry-After", std::to_string(limited->retry_after));
    return response;
  }
  place = std::get<KeyLimits::Place>(std::move(entered));
  return std::nullopt;
}

/// Refuses paths that are not there, and methods and types of bodies that they do not take.
std::optional<HttpResponse> Routes::refusal_by_path(const HttpRequest& request, std::string_view endpoint,
                                                    ErrorStyle errors) const {
  // Not among endpoints(): they tell about the server and load models, also while the model is being loaded.
  if (endpoint == "/metrics") {
    if (is_method(request, "GET")) return std::nullopt;
    return wrong_method(request, "GET", errors);
  }
  if (endpoint == "/admin/model" && rules_.admin) return std::nullopt;
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
    const std::optional<ApiError> type = content_type_refusal(request.header("Content-Type"));
    if (type) return error_response(*type, errors);
  }
  return std::nullopt;
}

void Routes::answer(const HttpRequest& request, ResponseWriter& writer) const {
  const std::string_view endpoint = read_api_path(request.path).endpoint;
  if (endpoint == "/metrics") return writer.send(metrics_.answer());
  if (endpoint == "/admin/model" && rules_.admin) return writer.send(rules_.admin(request));
  const Destination to = find_destination(request);
  if (const auto* handle = std::get_if<Endpoint::OfServer>(&to.endpoint->handle))
    return writer.send((*handle)(request));
  answer_by_model(*to.endpoint, to.argument, request, writer);
}

void Routes::answer_by_model(const Endpoint& endpoint, std::string_view argument, const HttpRequest& request,
                             ResponseWriter& writer) const {
  const ErrorStyle errors = error_style(request);
  // A page that is left open does not keep the model loaded, nor load it again.
  const bool only_watches = endpoint.path == "/page/events";
  // Held until the answer has ended, also if another model takes its place.
  const std::shared_ptr<const ReadyModel> model = only_watches ? state_.model() : state_.await_model();
  if (state_.phase() == ServerState::Phase::kStopping)
    return writer.send(unavailable("the server is stopping; try again when it is back", errors));
  if (model == nullptr && only_watches && state_.phase() == ServerState::Phase::kUnloaded)
    return writer.send(unavailable("the model is unloaded; the next request loads it again", errors));
  if (model == nullptr) {
    const int percent = static_cast<int>(state_.progress() * 100);
    return writer.send(unavailable(
        "the model is being loaded (" + std::to_string(percent) + " %); try again shortly", errors));
  }
  if (const auto* generate = std::get_if<Endpoint::Generates>(&endpoint.handle))
    return (*generate)(*model->api, request, argument, writer);
  writer.send(std::get<Endpoint::OfModel>(endpoint.handle)(*model->api, request, argument));
}

}  // namespace hearth
