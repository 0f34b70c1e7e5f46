// The table of all endpoints. It decides which requests get 404 or 405, the header Allow, who may call an
// endpoint, and what its handler needs.
//
// Tests compare it with the API's description and with the list in docs/api.md. server/gate/routes.h looks a
// request up once and acts on its row.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "server/api/api_context.h"
#include "server/api/server_state.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

/// The callers that an endpoint admits: everyone, or keys with this role. Ordered from least to most strict.
enum class Access { kEveryone, kUse, kMetrics, kAdmin };

enum class ModelUse {
  kNone,     // answers also while there is no model
  kWatches,  // needs the model, but neither keeps it loaded nor loads it again
  kWakes,    // needs the model; an unloaded one is loaded
};

/// The parts of the server from which handlers make an answer without a model. The parts must outlive the
/// users of this struct.
struct ServerParts {
  const ServerState& state;
  std::function<HttpResponse()> metrics;                  // the figures for GET /metrics
  std::function<HttpResponse(const HttpRequest&)> admin;  // answers GET and POST /admin/model
};

struct Endpoint {
  /// A path in the form of read_api_path(). One '*' may stand for one or more characters, including slashes;
  /// these characters become the argument. Without a '*', the argument is the model that the request's path
  /// names, or empty if it names none.
  std::string_view path;
  std::string_view method;  // GET also answers HEAD, whose body the transport omits
  Access access;
  ModelUse model;

  /// Handlers, called by any HTTP thread. A handler that can answer at once returns the answer; a handler
  /// that has to wait gets the writer. `argument` is valid as long as the request.
  using OfRequest = HttpResponse (*)(const HttpRequest& request);
  using OfServer = HttpResponse (*)(const ServerParts& server, const HttpRequest& request);
  using OfModel = HttpResponse (*)(const ApiContext& api, const HttpRequest& request,
                                   std::string_view argument);
  using Generates = void (*)(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                             ResponseWriter& writer);
  std::variant<OfRequest, OfServer, OfModel, Generates> handle;

  bool of_page = false;  // exists only if the server has a page (--page)
  /// Whether monitoring requests the endpoint every few seconds. If so, a success is not logged, and
  /// --metrics-port serves the endpoint too. The row of a probe has the method GET and a handler of type
  /// OfServer.
  bool is_probe = false;
};

/// The whole table. The first row that matches a request's path selects the pattern. The first
/// row with this pattern and the request's method answers.
std::span<const Endpoint> endpoints();

/// The destination of a request. Valid as long as the request's path.
struct Destination {
  const Endpoint* endpoint = nullptr;  // null if no row of the path has the request's method
  std::string_view argument = {};
  // If `endpoint` is null: the methods of the path, separated by commas; empty if there is no such path.
  std::string methods = {};
  // The row's access. If `endpoint` is null: the strictest access of the path's rows or, for an unknown path,
  // kAdmin below /admin and else kUse.
  Access access = Access::kUse;
};

/// path: HttpRequest::path.
Destination find_destination(std::string_view path, std::string_view method, bool has_page);

/// Returns the first pattern in the table that matches `path`, a path from read_api_path(), or "" if none
/// does.
std::string_view table_path(std::string_view path);

}  // namespace hearth
