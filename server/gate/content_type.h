// Decides which Content-Type a request with a JSON body may have. Pure; called by Routes on HTTP worker
// threads.
//
// Many clients label JSON with a wrong type: curl -d sends application/x-www-form-urlencoded, and fetch()
// sends text/plain. These types are therefore accepted, and only the body is checked. A type for a body that
// is never JSON (a form with files, XML, an image) is refused: it shows that the client uses the wrong
// endpoint or library, which the error "not JSON at byte 1" would not reveal.
#pragma once

#include <optional>
#include <string_view>

#include "server/json/api_error.h"

namespace hearth {

/// Returns the 415 error for a Content-Type that never carries JSON, or nullopt for other types.
/// content_type: the header's value; empty if absent.
std::optional<ApiError> content_type_refusal(std::string_view content_type);

}  // namespace hearth
