// The gate's decision about a request, made from the request's head before the body is received.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

/// Exists on the stack of the request's thread until the answer has ended. `answer` may therefore hold
/// objects with this lifetime, such as the request's KeyLimits::Place.
struct Admission {
  /// Set if the answer does not depend on the body. The answer is then sent without waiting for the body.
  std::optional<HttpResponse> at_once = {};
  /// Answers the request when its body has arrived. Empty only if `at_once` is set. If it throws, the client
  /// gets a 500 without the exception's text. If the answer's body has begun, the connection is broken
  /// instead.
  std::function<void(const HttpRequest&, ResponseWriter&)> answer = {};
  /// Added to every answer to the request, including errors from the HTTP server itself.
  HttpHeaders headers = {};
  std::string key_name = {};  // name of the request's API key, for the access log; empty: none
};

}  // namespace hearth
