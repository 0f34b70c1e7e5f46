// The table of endpoints: path, method, handler. Only /health is not in it (server/gate/routes.h).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

struct Endpoint {
  /// As read_api_path() gives it. One '*' may stand for one or more characters, slashes included: they are the argument. Without
  /// one, the argument is the model that the path names, if any.
  std::string_view path;
  std::string_view method;
  using OfModel = HttpResponse (*)(const ApiContext& api, const HttpRequest& request,
                                   std::string_view argument);
  using OfServer =
      HttpResponse (*)(const HttpRequest& request);  // also answers while the model is being loaded
  /// Called by any HTTP thread.
  std::variant<OfModel, OfServer> handle;
};

/// All of them; the first whose path and method match answers.
std::span<const Endpoint> endpoints();

/// What the '*' of the pattern stands for; empty if it has none. nullopt: the path does not match.
std::optional<std::string_view> match_path(std::string_view pattern, std::string_view path);

}  // namespace hearth
