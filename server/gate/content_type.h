// Which Content-Type a request with a JSON body may have. Pure; called by Routes on HTTP worker threads.
//
// The body decides what it is, not the header, because many clients send JSON under another type: curl -d writes
// application/x-www-form-urlencoded, fetch() writes text/plain. But a type that stands for a body of another kind (a
// form with files, XML, an image) tells of a client that uses the wrong endpoint or library, and "not JSON at byte 1"
// would not help it.
#pragma once

#include <optional>
#include <string_view>

#include "server/json/api_error.h"

namespace hearth {

/// The 415 for a Content-Type under which no JSON comes. content_type: the header's value; empty: absent.
std::optional<ApiError> content_type_refusal(std::string_view content_type);

}  // namespace hearth
