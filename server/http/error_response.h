// Whole responses that refuse a request. Thread-safe: no state.
#pragma once

#include <string>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

/// The response for an error. Statuses from 500 on, except 503, carry "x-should-retry: false", because
/// OpenAI's clients would otherwise send the request two more times.
HttpResponse error_response(const ApiError& error, ErrorStyle style = ErrorStyle::kOpenAi);

/// The 405 response with its Allow header. allowed: the path's methods, separated by commas; GET implies
/// HEAD.
HttpResponse wrong_method(const HttpRequest& request, const std::string& allowed, ErrorStyle style);

}  // namespace hearth
