// The table of endpoints and the gates before them; see the header.
#include "server/http/routes.h"

#include <array>
#include <string_view>

#include "server/api/error.h"
#include "server/http/api_path.h"
#include "server/http/content_type.h"

namespace hearth {
namespace {

// Endpoints that need the model.
struct Endpoint {
  std::string_view path;  // as read_api_path() gives it
  bool is_prefix;         // the rest of the path is the argument; else that is the model that the path names
  std::string_view method;
  HttpResponse (*handle)(const ApiService& api, const HttpRequest& request, std::string_view argument);
};

constexpr std::array<Endpoint, 4> kEndpoints = {{
    {"/completions", false, "POST",
     [](const ApiService& api, const HttpRequest& request, std::string_view model) {
       return api.completions(request, model);
     }},
    {"/chat/completions", false, "POST",
     [](const ApiService& api, const HttpRequest& request, std::string_view model) {
       return api.chat_completions(request, model);
     }},
    {"/models", false, "GET",
     [](const ApiService& api, const HttpRequest&, std::string_view) { return api.list_models(); }},
    {"/models/", true, "GET",
     [](const ApiService& api, const HttpRequest&, std::string_view id) { return api.retrieve_model(id); }},
}};

const Endpoint* find_endpoint(std::string_view whole_path, std::string_view& argument) {
  const auto [path, model] = read_api_path(whole_path);
  for (const Endpoint& endpoint : kEndpoints) {
    const bool matches =
        endpoint.is_prefix ? path.substr(0, endpoint.path.size()) == endpoint.path : path == endpoint.path;
    if (!matches) continue;
    argument = endpoint.is_prefix ? path.substr(endpoint.path.size()) : model;
    return &endpoint;
  }
  return nullptr;
}

/// HEAD is answered like GET; the transport leaves the body out.
bool is_method(const HttpRequest& request, std::string_view method) {
  return request.method == method || (method == "GET" && request.method == "HEAD");
}

HttpResponse wrong_method(const HttpRequest& request, std::string_view allowed) {
  HttpResponse response =
      error_response({405, request.path + " takes " + std::string(allowed) + ", not " + request.method, "",
                      "method_not_allowed"});
  response.headers.emplace_back("Allow", allowed == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
  return response;
}

HttpResponse unavailable(const std::string& message) {
  HttpResponse response = error_response({503, message, "", ""});
  // Without it clients use up their retries within two seconds.
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace

Routes::Routes(const ServerState& state, Auth auth, CorsPolicy cors)
    : state_(state), auth_(std::move(auth)), cors_(std::move(cors)) {}

HttpResponse Routes::operator()(const HttpRequest& request) const {
  HttpResponse response = dispatch(request);
  cors_.allow(request, response);
  return response;
}

HttpResponse Routes::dispatch(const HttpRequest& request) const {
  if (request.method == "OPTIONS") return cors_.preflight(request);
  if (request.path == "/health")
    return is_method(request, "GET") ? state_.health() : wrong_method(request, "GET");

  const std::string_view origin = request.header("Origin");
  if (!auth_.required() && CorsPolicy::is_web_page(origin) && !cors_.allows(origin, request.remote_address)) {
    return error_response({403,
                           "pages of " + std::string(origin) + " may not use this server; --cors-origin " +
                               std::string(origin) + " would allow it",
                           "", "origin_not_allowed"});
  }
  if (const std::optional<ApiError> refusal = auth_.refusal(request)) {
    HttpResponse response = error_response(*refusal);
    response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"hearthd\"");
    return response;
  }

  std::string_view argument;
  const Endpoint* endpoint = find_endpoint(request.path, argument);
  if (endpoint == nullptr) {
    return error_response(
        {404,
         "there is no " + request.path +
             " here; endpoints are /v1/chat/completions, /v1/completions, /v1/models and /health",
         "", "unknown_url"});
  }
  if (!is_method(request, endpoint->method)) return wrong_method(request, endpoint->method);
  if (endpoint->method == "POST") {
    const std::optional<ApiError> refusal = content_type_refusal(request.header("Content-Type"));
    if (refusal) return error_response(*refusal);
  }

  const ServerState::Phase phase = state_.phase();
  if (phase == ServerState::Phase::kStopping) return unavailable("the server is shutting down");
  const ReadyModel* model = state_.model();
  if (model == nullptr) {
    const int percent = static_cast<int>(state_.progress() * 100);
    return unavailable("the model is being loaded (" + std::to_string(percent) + " %); try again shortly");
  }
  return endpoint->handle(*model->api, request, argument);
}

}  // namespace hearth
