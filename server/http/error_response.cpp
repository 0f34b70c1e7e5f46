// See the header.
#include "server/http/error_response.h"

namespace hearth {

HttpResponse error_response(const ApiError& error, ErrorStyle style) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error, style);
  if (error.status >= 500 && error.status != 503) response.headers.emplace_back("x-should-retry", "false");
  return response;
}

HttpResponse wrong_method(const HttpRequest& request, const std::string& allowed, ErrorStyle style) {
  HttpResponse response = error_response(
      {405, request.path + " takes " + allowed + ", not " + request.method, "", "method_not_allowed"}, style);
  const bool get = allowed.find("GET") != std::string::npos;
  response.headers.emplace_back("Allow", allowed + (get ? ", HEAD, OPTIONS" : ", OPTIONS"));
  return response;
}

}  // namespace hearth
