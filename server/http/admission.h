// The gate's decision about a request, made from its head. The transport requests the decision before it
// waits for the body.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

/// Lives on the stack of the request's thread until the answer has ended. Therefore `answer` may hold objects
/// that must live that long, such as the request's place in its key's limits.
struct Admission {
  /// The answer, if it does not depend on the body. The transport then does not wait for the body.
  std::optional<HttpResponse> at_once = {};
  /// Answers the request once its body has arrived. Empty only if `at_once` is set. If it throws, the client
  /// gets a 500 without the exception's text or, if the answer's body has begun, a broken connection.
  std::function<void(const HttpRequest&, ResponseWriter&)> answer = {};
  /// Added to every answer to the request, including answers that the transport makes.
  HttpHeaders headers = {};
  std::string key_name = {};  // name of the request's API key, for the access log; empty: none
};

}  // namespace hearth
