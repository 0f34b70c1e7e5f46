// Whole responses that refuse a request. Thread-safe: no state.
#pragma once

#include <string>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

/// A whole response. Statuses from 500 on except 503 carry "x-should-retry: false", because OpenAI's clients
/// would otherwise send the request twice more.
HttpResponse error_response(const ApiError& error, ErrorStyle style = ErrorStyle::kOpenAi);

/// The 405 with its Allow header. allowed: the methods that the path takes, with commas between; HEAD goes with GET.
HttpResponse wrong_method(const HttpRequest& request, const std::string& allowed, ErrorStyle style);

}  // namespace hearth
