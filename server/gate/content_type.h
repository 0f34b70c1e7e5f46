// Decides which Content-Type a request with a JSON body may have. Pure; called by Routes on HTTP worker
// threads.
//
// Many clients send JSON under another type: curl -d writes application/x-www-form-urlencoded, fetch() writes
// text/plain. So these types are accepted and the body decides. But a type for a different kind of body (a
// form with files, XML, an image) shows that the client uses the wrong endpoint or library, and "not JSON at
// byte 1" would not help it.
#pragma once

#include <optional>
#include <string_view>

#include "server/json/api_error.h"

namespace hearth {

/// The 415 for a Content-Type that never carries JSON. content_type: the header's value; empty if absent.
std::optional<ApiError> content_type_refusal(std::string_view content_type);

}  // namespace hearth
