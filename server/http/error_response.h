// Responses that refuse a request. Thread-safe, because there is no state.
#pragma once

#include <string>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

/// Returns the response for an error. Statuses from 500 on, except 503, have "x-should-retry: false", because
/// OpenAI's clients would otherwise repeat the request twice.
HttpResponse error_response(const ApiError& error, ErrorStyle style = ErrorStyle::kOpenAi);

/// Returns a 405 response with the header Allow. allowed: the methods of the path, separated by commas; GET
/// implies HEAD.
HttpResponse wrong_method(const HttpRequest& request, const std::string& allowed, ErrorStyle style);

}  // namespace hearth
