// Error bodies for each family of clients, and the exception that refuses a request.
//
// The API handlers and the HTTP transport build all their error bodies here, so that they look alike.
// Thread-safe, because there is no state.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace hearth {

struct ApiError {
  int status = 400;     // 400 to 599; decides the error's type
  std::string message;  // a sentence or two: what, found, expected, remedy
  std::string param;    // the wrong parameter of the request; empty: null
  std::string code;     // machine-readable reason; empty: null
};

/// The `type` for a status: 400 invalid_request_error, 401 authentication_error, 403 permission_error, 404
/// not_found_error, 429 rate_limit_error, 500 server_error, 501 not_supported_error, 503 unavailable_error;
/// other 4xx are invalid_request_error, other 5xx server_error.
std::string_view error_type(int status);

/// The shape of an error body, by the endpoint's family:
///   kOpenAi     {"error": {"message", "type", "param", "code"}}
///   kAnthropic  {"type": "error", "error": {"type", "message"}}
///   kOllama     {"error": "message"}
enum class ErrorStyle { kOpenAi, kAnthropic, kOllama };

/// The JSON text of the body. Bytes that are not UTF-8 become U+FFFD.
std::string error_json(const ApiError& error, ErrorStyle style = ErrorStyle::kOpenAi);

/// Thrown while a request is parsed and checked; caught by guarded(), never leaves a handler.
class RequestError : public std::exception {
 public:
  explicit RequestError(ApiError error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const ApiError& error() const { return error_; }

 private:
  ApiError error_;
};

/// Throws RequestError with status 400 and this message about this parameter.
[[noreturn]] void refuse_param(std::string_view param, std::string message, std::string_view code = {});

}  // namespace hearth
