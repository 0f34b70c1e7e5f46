// See the header.
#include "server/gate/routes.h"

#include <utility>
#include <variant>

#include "server/endpoints/api_path.h"
#include "server/gate/content_type.h"
#include "server/gate/own_page.h"
#include "server/http/error_response.h"
#include "server/http/message/query.h"
#include "server/json/top_level_text.h"

namespace hearth {
namespace {

/// Returns the role that a key needs. REQUIRES: access is not kEveryone.
Role role_of(Access access) {
  return access == Access::kMetrics ? Role::kMetrics : access == Access::kAdmin ? Role::kAdmin : Role::kUse;
}

/// Returns the error for an unknown path, or for a method or type of body that the path does not accept.
std::optional<HttpResponse> refusal_by_path(const HttpRequest& request, const Destination& to,
                                            ErrorStyle errors) {
  if (to.endpoint == nullptr && to.methods.empty()) {
    return error_response(
        {404,
         "there is no " + request.path +
             " here; GET /openapi.json lists the endpoints, among them /v1/chat/completions and /v1/models",
         "", "unknown_url"},
        errors);
  }
  if (to.endpoint == nullptr) return wrong_method(request, to.methods, errors);
  if (request.method != "POST") return std::nullopt;
  const std::optional<ApiError> type = content_type_refusal(request.header("Content-Type"));
  if (!type) return std::nullopt;
  return error_response(*type, errors);
}

/// Returns the model that the request names: in the query of a GET request, in the body, or in Azure's path.
/// Requests about a stored response belong to the model that stores it. Throws RequestError.
std::shared_ptr<const CatalogModel> chosen_model(const ModelCatalog& catalog, const Endpoint& endpoint,
                                                 std::string_view argument, const HttpRequest& request) {
  const bool is_ollama = endpoint.path.starts_with("/api/");
  if (endpoint.path.find('*') != std::string_view::npos) {
    if (std::shared_ptr<const CatalogModel> keeper = catalog.keeper_of(std::string(argument))) return keeper;
    if (const std::shared_ptr<const ReadyModel> loaded = catalog.first_loaded())
      return catalog.find(loaded->name, false);
    return catalog.find({}, false);
  }
  if (request.method != "POST")
    return catalog.find(query_value(request.query, "model").value_or(""), is_ollama);
  std::string name = top_level_text(request.body, "model");
  if (name.empty() && is_ollama) name = top_level_text(request.body, "name");
  return catalog.find(name.empty() ? argument : std::string_view(name), is_ollama);
}

HttpResponse unavailable(const std::string& message, ErrorStyle errors) {
  HttpResponse response = error_response({503, message, "", ""}, errors);
  // Without Retry-After, clients would use all their retries within two seconds.
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace

Routes::Routes(const ServerState& state, const MetricsPage& metrics, AccessRules rules,
               std::function<HttpResponse(const HttpRequest&)> admin, Several several)
    : state_(state),
      several_(several),
      rules_(std::move(rules)),
      parts_{.state = state,
             .metrics = [&metrics] { return metrics.answer(); },
             .admin = std::move(admin),
             .catalog = several.catalog} {}

Admission Routes::admit(HttpRequest& request) const {
  request.sender = rules_.proxies.sender(request);
  const ErrorStyle errors = error_style(request);
  Admission admission;
  rules_.cors.allow(request, admission.headers);
  // Anthropic's clients read the request id from this header.
  if (errors == ErrorStyle::kAnthropic) admission.headers.emplace_back("request-id", request.request_id);
  const auto at_once = [&admission](HttpResponse response) {
    admission.at_once = std::move(response);
    return std::move(admission);
  };

  // 1. Answer requests that need no key.
  if (const std::optional<ApiError> host = rules_.hosts.refusal(request))
    return at_once(error_response(*host, errors));
  if (request.method == "OPTIONS") return at_once(rules_.cors.preflight(request));
  const Destination to = find_destination(request.path, request.method, rules_.has_page);
  if (to.access == Access::kEveryone) {
    if (to.endpoint == nullptr) return at_once(wrong_method(request, to.methods, errors));
    return at_once(whole_answer(*to.endpoint, request));
  }
  // 2. Check the origin, the key and the key's limits.
  if (std::optional<HttpResponse> refusal = refusal_by_origin(request, errors))
    return at_once(std::move(*refusal));
  Entry entry = enter(request, to.access, errors);
  admission.key_name = std::move(entry.key_name);
  if (entry.refusal) return at_once(std::move(*entry.refusal));
  // 3. Check the path, the method and the type of the body.
  if (std::optional<HttpResponse> refusal = refusal_by_path(request, to, errors))
    return at_once(std::move(*refusal));
  admission.answer = [this, &endpoint = *to.endpoint, argument = to.argument, errors, place = entry.place](
                         const HttpRequest& whole, ResponseWriter& writer) {
    answer(endpoint, argument, whole, errors, writer);
  };
  return admission;
}

/// Without keys, refuses requests from foreign web pages, which could otherwise use the model through their
/// visitors' browsers.
std::optional<HttpResponse> Routes::refusal_by_origin(const HttpRequest& request, ErrorStyle errors) const {
  const std::string_view origin = request.header("Origin");
  if (rules_.auth.required() || !CorsPolicy::is_web_page(origin) ||
      rules_.cors.allows(origin, request.remote_address) ||
      is_own_page(origin, request.header("Host"), rules_.has_tls))
    return std::nullopt;
  return error_response({403,
                         "web pages of " + std::string(origin) + " may not use this server; --cors-origin " +
                             std::string(origin) + " allows them",
                         "", "origin_not_allowed"},
                        errors);
}

/// Refuses a request that has no key with the required role, or exceeds the key's limits.
Routes::Entry Routes::enter(HttpRequest& request, Access access, ErrorStyle errors) const {
  const Auth::Verdict verdict = rules_.auth.check(request, role_of(access));
  request.client = verdict.key_name.empty() ? request.sender : "key " + verdict.key_name;
  Entry entry{.key_name = verdict.key_name, .place = nullptr};
  if (verdict.refusal) {
    entry.refusal = error_response(*verdict.refusal, errors);
    if (entry.refusal->status == 401)
      entry.refusal->headers.emplace_back("WWW-Authenticate", "Bearer realm=\"hearthd\"");
    return entry;
  }
  if (request.method != "POST") return entry;
  std::variant<KeyLimits::Place, KeyLimits::Refusal> entered = limits_.enter(verdict.key);
  if (const auto* limited = std::get_if<KeyLimits::Refusal>(&entered)) {
    entry.refusal = error_response({429, limited->message, "", "key_limit"}, errors);
    entry.refusal->headers.emplace_back("Retry-After", std::to_string(limited->retry_after));
    return entry;
  }
  entry.place = std::get<KeyLimits::Place>(std::move(entered));
  return entry;
}

/// Returns the answer of an endpoint that needs no model.
HttpResponse Routes::whole_answer(const Endpoint& endpoint, const HttpRequest& request) const {
  if (const auto* handle = std::get_if<Endpoint::OfRequest>(&endpoint.handle)) return (*handle)(request);
  return std::get<Endpoint::OfServer>(endpoint.handle)(parts_, request);
}

void Routes::answer(const Endpoint& endpoint, std::string_view argument, const HttpRequest& request,
                    ErrorStyle errors, ResponseWriter& writer) const {
  if (endpoint.model == ModelUse::kNone) return writer.send(whole_answer(endpoint, request));
  if (several_.catalog != nullptr) return answer_by_choice(endpoint, argument, request, errors, writer);
  // The model stays loaded until the answer has ended, even if another model replaces it.
  const std::shared_ptr<const ReadyModel> model =
      endpoint.model == ModelUse::kWakes ? state_.await_model() : state_.model();
  const ServerState::Phase phase = state_.phase();
  if (phase == ServerState::Phase::kUnloaded && endpoint.of_catalog != nullptr &&
      several_.unloaded != nullptr)
    return writer.send(endpoint.of_catalog(*several_.unloaded, request, argument));
  if (model == nullptr || phase == ServerState::Phase::kStopping)
    return writer.send(no_model(state_, endpoint.model, errors));
  answer_with(*model, endpoint, argument, request, writer);
}

void Routes::answer_with(const ReadyModel& model, const Endpoint& endpoint, std::string_view argument,
                         const HttpRequest& request, ResponseWriter& writer) {
  if (const auto* generate = std::get_if<Endpoint::Generates>(&endpoint.handle))
    return (*generate)(*model.api, request, argument, writer);
  writer.send(std::get<Endpoint::OfModel>(endpoint.handle)(*model.api, request, argument));
}

/// Answers with the model that the request names, and waits until the model is loaded.
void Routes::answer_by_choice(const Endpoint& endpoint, std::string_view argument, const HttpRequest& request,
                              ErrorStyle errors, ResponseWriter& writer) const {
  if (endpoint.of_catalog != nullptr)
    return writer.send(endpoint.of_catalog(*several_.catalog, request, argument));
  std::shared_ptr<const CatalogModel> chosen;
  try {
    chosen = chosen_model(*several_.catalog, endpoint, argument, request);
  } catch (const RequestError& error) {
    return writer.send(error_response(error.error(), errors));
  }
  const ServerState& state = *chosen->state;
  ServerState::Awaited awaited;
  if (endpoint.model == ModelUse::kWakes) {
    awaited = state.await_turn(several_.most_waiting, [&writer] { return writer.client_alive(); });
  } else {
    awaited.model = state.model();
  }
  if (awaited.full) {
    return writer.send(unavailable(
        "too many requests wait for the model '" + chosen->names.front() + "' to be loaded; try again later",
        errors));
  }
  if (!awaited.refusal.empty())
    return writer.send(error_response({500, awaited.refusal, "model", "model_not_loaded"}, errors));
  if (awaited.model == nullptr || state.phase() == ServerState::Phase::kStopping)
    return writer.send(no_model(state, endpoint.model, errors));
  answer_with(*awaited.model, endpoint, argument, request, writer);
}

HttpResponse Routes::no_model(const ServerState& state, ModelUse use, ErrorStyle errors) {
  const ServerState::Phase phase = state.phase();
  if (phase == ServerState::Phase::kStopping)
    return unavailable("the server is stopping; try again when it is back", errors);
  if (use == ModelUse::kWatches && phase == ServerState::Phase::kUnloaded)
    return unavailable("the model is unloaded; the next request loads it again", errors);
  const int percent = static_cast<int>(state.progress() * 100);
  return unavailable("the model is being loaded (" + std::to_string(percent) + " %); try again shortly",
                     errors);
}

}  // namespace hearth
