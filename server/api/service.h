// The OpenAI endpoints, from HTTP request to HTTP response: everything of them that is not sockets.
//
// One ApiService for the process, made when the model is loaded, called by any number of HTTP threads at
// once. Everything that can be refused is refused in the call (4xx, 429, 503 with OpenAI's error body); an
// accepted request comes back as a response with `produce`, which waits for the engine's events and writes
// JSON or SSE.
#pragma once

#include <cstddef>
#include <string_view>

#include "server/api/api_world.h"
#include "server/api/served_model.h"
#include "server/http/http_types.h"

namespace hearth {

class ApiService {
 public:
  explicit ApiService(ServedModel model, ApiWorld world = ApiWorld::real());

  HttpResponse completions(const HttpRequest& request) const;       // POST /v1/completions
  HttpResponse chat_completions(const HttpRequest& request) const;  // POST /v1/chat/completions
  HttpResponse list_models() const;                                 // GET /v1/models
  /// GET /v1/models/{id}; id as it stands after the prefix, percent-decoded; it may hold slashes.
  HttpResponse retrieve_model(std::string_view id) const;

 private:
  ServedModel model_;
  ApiWorld world_;
  size_t longest_token_bytes_;
};

}  // namespace hearth
