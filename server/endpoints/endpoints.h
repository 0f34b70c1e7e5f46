// The table of all endpoints. It determines which requests get 404 or 405, the header Allow, the keys that
// may use an endpoint, and the arguments of its handler.
//
// Tests compare the table with the API description and with docs/api.md. Routes searches the table once per
// request.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "server/api/api_context.h"
#include "server/api/model_catalog.h"
#include "server/api/server_state.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

/// The callers that an endpoint admits: everyone, or keys with a role. Ordered from least to most strict.
enum class Access { kEveryone, kUse, kMetrics, kAdmin };

enum class ModelUse {
  kNone,     // needs no model
  kWatches,  // needs a loaded model or its catalog, but does not cause a load or prevent an unload
  kWakes,    // needs the model; causes an unloaded model to be loaded
};

/// The parts of the server for handlers that need no model. `state`, and the objects to which the functions
/// refer, must outlive this struct.
struct ServerParts {
  const ServerState& state;
  std::function<HttpResponse()> metrics;                  // answers GET /metrics
  std::function<HttpResponse(const HttpRequest&)> admin;  // answers GET and POST /admin/model
  const ModelCatalog* catalog = nullptr;                  // null if there is one model
};

struct Endpoint {
  /// A path in the form of read_api_path(). It may contain one '*', which matches one or more characters,
  /// including slashes. The matched characters become the handler's argument. Without a '*', the argument is
  /// the model in the request's path, or empty.
  std::string_view path;
  std::string_view method;  // GET also answers HEAD, whose body is not sent
  Access access;
  ModelUse model;

  /// The types of handlers. Any HTTP thread may call a handler. A handler that does not wait returns its
  /// response; a handler that may wait gets a writer. `argument` is valid as long as the request.
  using OfRequest = HttpResponse (*)(const HttpRequest& request);
  using OfServer = HttpResponse (*)(const ServerParts& server, const HttpRequest& request);
  using OfModel = HttpResponse (*)(const ApiContext& api, const HttpRequest& request,
                                   std::string_view argument);
  using Generates = void (*)(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                             ResponseWriter& writer);
  std::variant<OfRequest, OfServer, OfModel, Generates> handle;

  bool of_page = false;  // whether the endpoint exists only with --page
  /// Whether monitoring systems request the endpoint every few seconds. A successful request is then not
  /// logged, and --metrics-port also serves the endpoint. REQUIRES: the method is GET, and the handler has
  /// type OfServer.
  bool is_probe = false;
  /// Answers the request from the list of models if the server has several, or if its only model is
  /// unloaded; null: a model answers.
  using OfCatalog = HttpResponse (*)(const ModelCatalog& catalog, const HttpRequest& request,
                                     std::string_view argument);
  OfCatalog of_catalog = nullptr;
};

/// The whole table. A request belongs to the first pattern that matches its path. The first row with this
/// pattern and the request's method answers it.
std::span<const Endpoint> endpoints();

/// The endpoint of a request. Valid as long as the request's path.
struct Destination {
  const Endpoint* endpoint = nullptr;  // null if the path does not support the request's method
  std::string_view argument = {};
  // If `endpoint` is null: the methods that the path supports, separated by commas; empty for an unknown
  // path.
  std::string methods = {};
  // The endpoint's access. If `endpoint` is null: the strictest access of the path's rows; for an unknown
  // path, kAdmin below /admin and kUse elsewhere.
  Access access = Access::kUse;
};

/// path: HttpRequest::path.
Destination find_destination(std::string_view path, std::string_view method, bool has_page);

/// Returns the first pattern in the table that matches `path`, which is from read_api_path(). Returns "" if
/// no pattern matches.
std::string_view table_path(std::string_view path);

}  // namespace hearth
