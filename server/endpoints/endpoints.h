// The table of API endpoints: path, method, handler. server/gate/routes.h answers /health, /livez, /readyz,
// /metrics, /admin/model and the page itself.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

struct Endpoint {
  /// A path in the form of read_api_path(). One '*' may stand for one or more characters, including slashes,
  /// which become the argument. Without a '*', the argument is the model that the request's path names, if
  /// any.
  std::string_view path;
  std::string_view method;
  using OfModel = HttpResponse (*)(const ApiContext& api, const HttpRequest& request,
                                   std::string_view argument);
  using OfServer = HttpResponse (*)(const HttpRequest& request);  // also answers while the model is loading
  /// Called by any HTTP thread.
  std::variant<OfModel, OfServer> handle;
};

/// The whole table; the first entry that matches path and method answers.
std::span<const Endpoint> endpoints();

/// The characters that the pattern's '*' stands for; empty if it has none. nullopt if the path does not
/// match.
std::optional<std::string_view> match_path(std::string_view pattern, std::string_view path);

}  // namespace hearth
