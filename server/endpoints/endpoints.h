// The table of API endpoints: path, method, handler. server/gate/routes.h answers /health, /livez, /readyz,
// /metrics, /admin/model and the page itself.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "server/api/api_context.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

struct Endpoint {
  /// A path in the form of read_api_path(). One '*' may stand for one or more characters, including slashes,
  /// which become the argument. Without a '*', the argument is the model that the request's path names, if
  /// any.
  std::string_view path;
  std::string_view method;
  /// Handlers, called by any HTTP thread. One that has its answer at once returns it; one that has to wait is
  /// given the writer.
  using OfModel = HttpResponse (*)(const ApiContext& api, const HttpRequest& request,
                                   std::string_view argument);
  using Generates = void (*)(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                             ResponseWriter& writer);
  using OfServer = HttpResponse (*)(const HttpRequest& request);  // also answers while the model is loading
  std::variant<OfModel, Generates, OfServer> handle;
};

/// The whole table; the first entry that matches path and method answers.
std::span<const Endpoint> endpoints();

/// The characters that the pattern's '*' stands for; empty if it has none. nullopt if the path does not
/// match.
std::optional<std::string_view> match_path(std::string_view pattern, std::string_view path);

}  // namespace hearth
