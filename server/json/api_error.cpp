// See the header.
#include "server/json/api_error.h"

#include <utility>

#include "server/json/json.h"

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

namespace {

/// A message may quote a part of the request, for example a grammar. That part may have megabytes, so
/// messages are limited to this length.
constexpr size_t kMostMessageBytes = 2000;

Json openai_error(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"error",
           {{"message", error.message},
            {"type", error_type(error.status)},
            {"param", or_null(error.param)},
            {"code", or_null(error.code)}}}};
}

/// Returns Anthropic's error type, which differs from error_type() for most statuses.
std::string_view anthropic_type(int status) {
  switch (status) {
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : error_type(status);
  }
}

/// Adds Anthropic's phrase for a prompt that is too long. Clients that find this phrase shorten the
/// conversation.
std::string anthropic_message(const ApiError& error) {
  const bool too_long = error.code == "context_length_exceeded";
  return (too_long ? "prompt is too long: " : "") + error.message;
}

Json anthropic_error(const ApiError& error) {
  return {{"type", "error"},
          {"error", {{"type", anthropic_type(error.status)}, {"message", anthropic_message(error)}}}};
}

}  // namespace

std::string error_json(const ApiError& whole, ErrorStyle style) {
  ApiError error = whole;
  error.message = cut_short(std::move(error.message), kMostMessageBytes);
  switch (style) {
    case ErrorStyle::kAnthropic:
      return json_text(anthropic_error(error));
    case ErrorStyle::kOllama:
      return json_text({{"error", error.message}});
    case ErrorStyle::kOpenAi:
      break;
  }
  return json_text(openai_error(error));
}

void refuse_param(std::string_view param, std::string message, std::string_view code) {
  throw RequestError(
      {.status = 400, .message = std::move(message), .param = std::string(param), .code = std::string(code)});
}

}  // namespace hearth
