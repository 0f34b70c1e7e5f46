// Asks Routes as the transport does: by the head first, then, if the request may be made, for its answer.
#pragma once

#include <optional>
#include <utility>

#include "server/gate/routes.h"

namespace hearth {

inline HttpResponse asked(const Routes& routes, HttpRequest& request) {
  std::optional<HttpResponse> refusal = routes.admit(request);
  return refusal ? std::move(*refusal) : routes.answer(request);
}

}  // namespace hearth
