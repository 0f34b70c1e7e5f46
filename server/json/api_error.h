// The error bodies of the supported APIs, and the exception with which a handler refuses a request.
//
// The API handlers and the HTTP server build all error bodies here, so that they have one form. Thread-safe,
// because there is no state.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace hearth {

struct ApiError {
  int status = 400;     // 400 to 599; determines the error's type
  std::string message;  // states the error, the value found, the expected value and a remedy
  std::string param;    // the invalid parameter of the request; if empty, the body has null
  std::string code;     // machine-readable reason; if empty, the body has null
};

/// Returns the error type for a status: 400 invalid_request_error, 401 authentication_error, 403
/// permission_error, 404 not_found_error, 429 rate_limit_error, 500 server_error, 501 not_supported_error,
/// 503 unavailable_error; other 4xx invalid_request_error, other 5xx server_error.
std::string_view error_type(int status);

/// The form of an error body. It depends on the API to which the endpoint belongs:
///   kOpenAi     {"error": {"message", "type", "param", "code"}}
///   kAnthropic  {"type": "error", "error": {"type", "message"}}
///   kOllama     {"error": "message"}
enum class ErrorStyle { kOpenAi, kAnthropic, kOllama };

/// Returns the JSON text of the error body. Bytes that are not UTF-8 become U+FFFD.
std::string error_json(const ApiError& error, ErrorStyle style = ErrorStyle::kOpenAi);

/// Thrown while a request is parsed and checked. guarded() catches it, so that it does not leave a handler.
class RequestError : public std::exception {
 public:
  explicit RequestError(ApiError error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const ApiError& error() const { return error_; }

 private:
  ApiError error_;
};

/// Throws RequestError with status 400, this message and this parameter.
[[noreturn]] void refuse_param(std::string_view param, std::string message, std::string_view code = {});

}  // namespace hearth
