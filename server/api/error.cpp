// Error bodies as OpenAI's clients read them.
#include "server/api/error.h"

#include <utility>

#include "server/api/json.h"

namespace hearth {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string error_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  const Json body{{"error",
                   {{"message", error.message},
                    {"type", error_type(error.status)},
                    {"param", or_null(error.param)},
                    {"code", or_null(error.code)}}}};
  return json_text(body);
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error);
  if (error.status >= 500 && error.status != 503) response.headers.emplace_back("x-should-retry", "false");
  return response;
}

void refuse_param(std::string_view param, std::string message, std::string_view code) {
  throw RequestError(
      {.status = 400, .message = std::move(message), .param = std::string(param), .code = std::string(code)});
}

}  // namespace hearth
